//! placeholder while the skeleton is written
