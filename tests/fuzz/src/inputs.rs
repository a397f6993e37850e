//! Inputs for a run without libFuzzer: the corpus, and changes to it.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// Characters and tokens that are significant to one of the parsers.
const SCRAPS: &[&str] = &[
    "0", "1", "9", ".", "-", "+", "e", "E", "n", "m", "k", "Ki", "Ei", "/", " ", "\t", "\n", "\r\n", "\0", "\"", "\\",
    "'", ":", ": ", "- ", ",", "{", "}", "[", "]", "&a ", "*a", "<<: ", "---\n", "...", "|\n", ">", "? ", "!!int ",
    "#", "%", "~", "null", "true", "1e5", "0x", "\\u0000", "\\ud800", "\u{feff}", "\u{2028}", "ß", "½", "😀", "A", "z",
];

/// Bytes that are not UTF-8, and a byte order mark of UTF-16.
const NO_TEXT: &[&[u8]] = &[b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xff\xfe"];

/// Maximum length of a random input that does not derive from the corpus.
const LONGEST: usize = 600;

/// Returns the inputs in the repository.
///
/// # Panics
/// Panics if there are none.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder is listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| fs::read(path).expect("the file is read")).collect()
}

/// Returns an infinite sequence of inputs by these random numbers.
pub fn random(mut rng: Rng, corpus: &[Vec<u8>], is_text: bool) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let from_corpus = is_text || rng.u8(..4) == 0;
        Some(if from_corpus { changed(&mut rng, corpus) } else { noise(&mut rng) })
    })
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.usize(..LONGEST)];
    rng.fill(&mut bytes);
    bytes
}

/// An input of the corpus with parts changed, removed, repeated and inserted.
fn changed(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let any = |rng: &mut Rng| &corpus[rng.usize(..corpus.len())];
    let mut bytes = any(rng).clone();
    for _ in 0..=rng.usize(..8) {
        let at = part(rng, &bytes);
        let put_in = match rng.u8(..8) {
            0 => Vec::new(),
            1 => bytes[at.clone()].repeat(rng.usize(2..6)),
            2 => bytes[part(rng, &bytes)].to_vec(),
            3 | 4 => {
                let other = any(rng);
                other[part(rng, other)].to_vec()
            }
            5 if rng.u8(..8) == 0 => NO_TEXT[rng.usize(..NO_TEXT.len())].to_vec(),
            _ => SCRAPS[rng.usize(..SCRAPS.len())].as_bytes().to_vec(),
        };
        // Often between existing bytes.
        let end = if rng.bool() { at.start } else { at.end };
        bytes.splice(at.start..end, put_in).for_each(drop);
    }
    bytes
}

fn part(rng: &mut Rng, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = rng.usize(..=bytes.len());
    start..rng.usize(start..=bytes.len().min(start + 40))
}
