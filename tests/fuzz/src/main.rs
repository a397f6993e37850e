//! Under libFuzzer: fuzzes the target that `FUZZ_TARGET` names. Otherwise: `fuzz` prints the names of the targets, and
//! `fuzz TARGET FILE…` checks files.

#![cfg_attr(fuzzing, no_main)]
#![allow(clippy::expect_used)]

use fuzz::Target;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: std::sync::LazyLock<Target> = std::sync::LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET is set");
        Target::named(&name).expect("FUZZ_TARGET names a target")
    });
    TARGET.check(bytes);
});

#[cfg(not(fuzzing))]
fn main() {
    let mut args = std::env::args().skip(1);
    match args.next() {
        Some(name) => {
            let target = Target::named(&name).expect("it names a target");
            args.for_each(|path| target.check(&std::fs::read(path).expect("the file is read")));
        }
        None => {
            let targets = fuzz::ALONE.iter().chain(&fuzz::WITH_ORACLE);
            targets.for_each(|target| println!("{}", target.name));
        }
    }
}
