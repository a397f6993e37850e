//! How much memory and work an input may cost.
//!
//! Work is measured in bytes that are ever allocated, which no machine's speed changes. What repeats itself without
//! allocating is not measured: libFuzzer's own timeout finds that.

/// At one time.
const MOST_AT_ONCE: u64 = 256 << 20;

/// In all, for each byte of an input.
const WORK_PER_BYTE: u64 = 4 << 10;

/// Returns what `work` returns on an input of this length, for which it allocates so many MiB in all and no more, besides
/// some for each byte.
///
/// # Panics
/// Where it allocates more than it may.
pub fn limited<T>(length: usize, mebibytes: u64, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    let measured = allocation_counter::measure(|| result = Some(work()));
    let (at_once, in_all) = (measured.bytes_max, measured.bytes_total);
    assert!(at_once <= MOST_AT_ONCE, "{at_once} bytes at one time for {length} of input");
    let most = (mebibytes << 20) + WORK_PER_BYTE * length as u64;
    assert!(in_all <= most, "{in_all} bytes allocated in all for {length} of input");
    result.expect("the work is done")
}
