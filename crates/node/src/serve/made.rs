//! An answer that is made at most so often, however many ask for it, and shared by all who do.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;

/// An answer that was made this lately is good enough for the next one who asks.
const FRESH: Duration = Duration::from_millis(500);

/// An answer, once it was made. All requests share the same bytes.
#[derive(Debug, Default)]
pub struct MadeOnce(Mutex<Option<(Instant, Bytes)>>);

impl MadeOnce {
    /// The answer: the last one if it is fresh, or what `make` makes.
    ///
    /// # Errors
    /// What `make` says. Nothing is kept then.
    pub fn get<T: Into<Bytes>, E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Bytes, E> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &*made
            && at.elapsed() < FRESH
        {
            return Ok(answer.clone());
        }
        let answer = make()?.into();
        *made = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_soon_after_gets_the_same_bytes() {
        let made = MadeOnce::default();
        assert_eq!(made.get(|| Err::<String, _>("broken")), Err("broken"));
        let first = made.get(|| Ok::<_, ()>("large".to_owned())).unwrap();
        let second = made.get(|| Err::<String, _>("it is not made twice")).unwrap();
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
