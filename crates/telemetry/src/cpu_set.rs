//! A set of CPUs, written as the kernel writes it: `0-3,8`.

use std::fmt;

/// CPUs beyond this number are refused; the kernel itself stops at 8192.
const LIMIT: u32 = 1 << 16;

/// Which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet {
    words: Vec<u64>,
}

/// What a text that is no set of CPUs has wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no set of CPUs: write it as in 0-3,8, with numbers below {LIMIT}")]
pub struct CpuSetError {
    /// The text.
    pub text: String,
}

// === impl CpuSet ===

impl CpuSet {
    /// The set that `text` names. An empty text is the empty set.
    ///
    /// # Errors
    ///
    /// Where a part of it is neither a number nor a range that goes up.
    pub fn parse(text: &str) -> Result<Self, CpuSetError> {
        let bad = || CpuSetError { text: text.chars().take(80).collect() };
        let number = |word: &str| {
            let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let number = word.parse::<u32>().ok().filter(|number| digits && *number < LIMIT);
            number.ok_or_else(bad)
        };
        let mut set = Self::default();
        let trimmed = text.trim();
        for part in trimmed.split(',').filter(|_| !trimmed.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(bad());
            }
            (first..=last).for_each(|cpu| set.add(cpu));
        }
        Ok(set)
    }

    /// Adds a CPU; one that is out of range is left out.
    pub fn add(&mut self, cpu: u32) {
        if cpu < LIMIT {
            let place = (cpu / 64) as usize;
            if self.words.len() <= place {
                self.words.resize(place + 1, 0);
            }
            if let Some(word) = self.words.get_mut(place) {
                *word |= 1 << (cpu % 64);
            }
        }
    }

    /// Whether a CPU is in it.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// Its CPUs, from the lowest on.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).take(self.words.len() * 64).filter(|cpu| self.has(*cpu))
    }

    /// How many CPUs are in it.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all of its CPUs are in `other`, too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.has(cpu))
    }

    /// Whether some CPU is in both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(one, other)| one & other != 0)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_and_writes_as_the_kernel_does() {
        for (text, shown, count) in
            [("0-3,8\n", "0-3,8", 5), ("", "", 0), ("\n", "", 0), ("3,1,2,70", "1-3,70", 4)]
        {
            let set = CpuSet::parse(text).unwrap();
            assert_eq!(set.to_string(), shown);
            assert_eq!(set.len(), count);
            assert_eq!(CpuSet::parse(shown), Ok(set.clone()));
            assert_eq!(set.is_empty(), count == 0);
        }
        for text in ["a", "1-", "-1", "3-1", "0,,1", "65536", "+1", "0 1"] {
            assert!(CpuSet::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sets_are_compared() {
        let set = |text| CpuSet::parse(text).unwrap();
        assert!(set("1,65").is_within(&set("0-1,65")) && !set("1,65").is_within(&set("0-1")));
        assert!(set("").is_within(&set("")) && !set("").meets(&set("0")));
        assert!(set("0-1").meets(&set("1-2")) && !set("0").meets(&set("1")));
        assert!(set("0-1").has(1) && !set("0-1").has(64));
    }
}
