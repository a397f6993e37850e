//! Limits of the memory and the work that an input may cost.
//!
//! Work is measured in the total of allocated bytes, which does not depend on the machine's speed. It does not cover
//! loops that allocate nothing: libFuzzer's own timeout finds those.

/// Maximum of bytes allocated at one time.
const MOST_AT_ONCE: u64 = 256 << 20;

/// Maximum of bytes allocated in total, for each byte of an input.
const WORK_PER_BYTE: u64 = 4 << 10;

/// Returns the result of `work` on an input of this length, which may allocate this number of MiB in total, plus an
/// allowance for each byte.
///
/// # Panics
/// Panics if `work` allocates more.
pub fn limited<T>(length: usize, mebibytes: u64, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    let measured = allocation_counter::measure(|| result = Some(work()));
    let (at_once, in_all) = (measured.bytes_max, measured.bytes_total);
    assert!(at_once <= MOST_AT_ONCE, "{at_once} bytes at one time for {length} of input");
    let most = (mebibytes << 20) + WORK_PER_BYTE * length as u64;
    assert!(in_all <= most, "{in_all} bytes allocated in all for {length} of input");
    result.expect("the work is done")
}
