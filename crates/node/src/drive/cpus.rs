//! How many CPUs this machine has: what there is to divide where nobody says otherwise.

use walras_core::units::Millicores;

/// The CPUs that are online, as the kernel lists them; one where that cannot be read.
#[must_use]
pub fn cpus_online() -> Millicores {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    Millicores::from_cores(count_cpus(&list).unwrap_or(1))
}

/// How many CPUs a list such as `0-3,6` has.
fn count_cpus(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!(count_cpus("0-1\n"), Some(2));
        assert_eq!(count_cpus("0\n"), Some(1));
        assert_eq!(count_cpus("0-3,6,8-9"), Some(7));
        assert_eq!(count_cpus(""), None);
        assert_eq!(count_cpus("3-1"), None);
        assert_eq!(count_cpus("0-4294967295"), None);
        assert!(cpus_online() >= Millicores::from_cores(1));
    }
}
