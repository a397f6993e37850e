//! Compares quantities, names, selectors, YAML and JSON, what pods request, and where `why` says that they fit, with Kubernetes'
//! own code, which `tests/controlplane/oracle` runs, and the verdicts on pods, quotas and LimitRanges with a real API
//! server.
//!
//! Most cases are the same in every run; `NRA_TEST_SEED` selects the others.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use fastrand::Rng;
use harness::control_plane_program;
use harness::oracle::ask;
use node_resource_advertiser::manifest::{self, Limits};
use node_resource_advertiser::model::label::{is_dns_subdomain, is_label_value, is_qualified_name};
use node_resource_advertiser::model::quantity::{ParseQuantityError, Quantity};
use node_resource_advertiser::model::resource_name::{ResourceName, is_extended};
use serde_json::{Deserializer, Value};
use simulator::seeds;

mod json;
mod pod_requests;
mod scheduler;
mod selectors;
mod separators;
mod verdicts;
mod whole_quantities;
mod yaml;

const CASES: usize = 100_000;

/// Characters that a typing error, a paste or a wrong encoding may insert.
const STRAY: &[&str] = &[
    "0", "1", "7", "9", ".", "+", "-", "e", "E", "i", "n", "u", "m", "k", "K", "M", "G", "T", "P", "B", "x", "_", "/",
    ",", ":", " ", "\t", "\n", "\r", "\0", "\"", "\\", "\u{7f}", "\u{a0}", "\u{feff}", "µ", "é", "٣", "½", "１", "😀",
    "a", "Z", "~", "*",
];

/// The seed of most cases.
const SEED: u64 = 20_260_101;

/// Returns so many random cases, a fifth of which vary from run to run.
fn random<T>(count: usize, generate: impl Fn(&mut Rng) -> T) -> Vec<T> {
    let parts = seeds::random(SEED, count).into_iter();
    let cases = parts.flat_map(|(count, mut rng)| (0..count).map(|_| generate(&mut rng)).collect::<Vec<_>>());
    cases.collect()
}

fn report(mismatches: &[String], total: usize) {
    assert!(
        mismatches.is_empty(),
        "{} of {total} cases differ:\n{}",
        mismatches.len(),
        mismatches[..mismatches.len().min(20)].join("\n")
    );
}

/// Returns the value of a document in a file; `None` if it cannot be read.
fn manifest_value(file: &str, document: &str) -> Option<Value> {
    manifest_objects(file, document).filter(|objects| objects.len() == 1).map(|mut objects| objects.remove(0))
}

/// Returns the objects of a file; `None` if not everything can be read.
fn manifest_objects(file: &str, text: &str) -> Option<Vec<Value>> {
    let mut objects = Vec::new();
    manifest::read_text(file, text.to_owned(), &Limits::default(), &mut |read| {
        objects.push(read.map(|object| object.value.clone()).ok());
    });
    objects.into_iter().collect()
}

/// Returns what kubectl makes of a file without asking a server; `None` if it cannot read it. Each object has the label
/// `l=b`.
fn kubectl_objects(text: &str) -> Option<Vec<Value>> {
    let mut kubectl = Command::new(control_plane_program("kubectl").unwrap())
        .args(["label", "--local", "--overwrite", "-o", "json", "-f", "-", "l=b"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    kubectl.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = kubectl.wait_with_output().unwrap();
    let objects = Deserializer::from_slice(&output.stdout).into_iter();
    output.status.success().then(|| objects.collect::<Result<_, _>>().unwrap())
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(..choices.len())]
}

fn pick_word<'a>(rng: &mut Rng, table: &'a str) -> &'a str {
    pick(rng, &table.split_whitespace().collect::<Vec<_>>())
}

/// The words of a table, and texts that cannot be written there.
fn fixed(words: &str, others: &[&str]) -> Vec<String> {
    let words = words.split_whitespace();
    words.chain(others.iter().copied()).map(str::to_owned).collect()
}

fn mutate(rng: &mut Rng, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=chars.len());
        let stray = pick(rng, STRAY).chars();
        let replaced = at..(at + rng.usize(..2)).min(chars.len());
        if rng.u8(..3) == 0 {
            chars.drain(replaced);
        } else {
            chars.splice(replaced, stray);
        }
    }
    chars.into_iter().collect()
}

mod quantity {
    use std::num::IntErrorKind;

    use super::*;

    /// Known values, special cases and limits; huge exponents only where Go returns at once.
    const FIXED: &str = "
        0  4  1000  1000000  1024  1Ki  0.5k  1e3  1E3  1e2  1e+2  4.0  1000m  8Ei  -8Ei
        7.999999999999999999999Ei  4.  +4  007  K  ki  1K  1ki  1i  1e  1E  1e1.5  0x1  1_0  1,0
        1E30  1e30  --1  +-1  12E2Ki  9007199254740993  9223372036854775807  9223372036854775808
        10E  0.9999  0.1n  -0.1n  1.0000000001  1.5Gi  0.1Ki  -0.1Ki  0.0001Ki  -1Ki  1023Ki
        1023.5Ki  0.5Ki  -1.5Ki  1024Ei  0.0000000000000000000000001Ei  1000E  -10000E  1e21
        1000000E  +  -  .  +.  -.  ..  1..  .5  -.5  5.k  k  n  m  E  e  e5  e-9  e-10  .e-9
        .e-10  .n  .0n  0e-10  Ki  Mi  Gi  Ti  Pi  Ei  .Ti  .Pi  0.Pi  .0Ei  -Ti  -Pi
        e2147483647  -0  -0Ki  0e2147483647  0.0e-2147483648  0e-2147483648  1e2147483647
        -1e2147483647  0.5e-2147483648  1e-2147483649  1e4294967296  1e9223372036854775808
        1e-9223372036854775809  1234567890123456789e2147483639  1e0000000000000000000000003
        1e-0  1e+0  1e+  1e-  1e++1  1e10000  1e-10000  99999999999999999999e-1000000
        170141183460469231731687303715884105727n  -170141183460469231731687303715884105727n
        170141183460469231731687303715884105728n  -170141183460469231731687303715884105728n
        170141183460469231731687303715.8841057270  170141183460469231731687303715.8841057271  1µ
        １
    ";

    const FIXED_ODD: &[&str] = &["", " 4 ", "1 0", "\u{feff}1", "1\0", "1\n"];

    const NUMBERS: &str = "
        1  10  1000  1023  1024  1025  1048576  999999999  1000000000  9007199254740993
        9223372036854775  9223372036854776  9223372036854775806  9223372036854775807
        9223372036854775808  18446744073709551615  18446744073709551616
        170141183460469231731687303715  170141183460469231731687303716
        170141183460469231731687303715884105727  170141183460469231731687303715884105728
        340282366920938463463374607431768211456  999999999999999999  1000000000000000000
        00931322574615478515625  0009765625  000000001  0000000001  8  7  0
    ";

    const SUFFIXES: &[&str] = &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

    fn digits(rng: &mut Rng) -> String {
        if rng.u8(..4) == 0 {
            return pick_word(rng, NUMBERS).to_owned();
        }
        let longest = [4, 4, 20, 60][rng.usize(..4)];
        let mut digits: String = (0..rng.usize(..longest)).map(|_| rng.digit(10)).collect();
        if rng.u8(..4) == 0 {
            digits.extend(std::iter::repeat_n(rng.digit(10), rng.usize(..30)));
        }
        digits
    }

    fn well_formed(rng: &mut Rng) -> String {
        let mut text = pick(rng, &["", "", "", "-", "+"]).to_owned();
        text.push_str(pick(rng, &["", "", "", "0", "000"]));
        text.push_str(&digits(rng));
        if rng.bool() {
            text.push('.');
            text.push_str(pick(rng, &["", "", "0", "00000000"]));
            text.push_str(&digits(rng));
        }
        if rng.u8(..3) > 0 {
            text.push_str(pick(rng, SUFFIXES));
        } else {
            let most = [4, 12, 40, 400][rng.usize(..4)];
            text.push_str(pick(rng, &["e", "E"]));
            text.push_str(pick(rng, &["", "-", "-", "+"]));
            text.push_str(pick(rng, &["", "", "0", "000"]));
            text.push_str(&rng.u32(..=most).to_string());
        }
        text
    }

    fn generate(rng: &mut Rng) -> String {
        loop {
            let text = match rng.u8(..10) {
                0 => (0..rng.usize(..9)).map(|_| pick(rng, STRAY)).collect(),
                1 | 2 => {
                    let valid = well_formed(rng);
                    mutate(rng, &valid)
                }
                _ => well_formed(rng),
            };
            // Go may need minutes for a mutated exponent.
            if exponent(&text).is_none_or(|exponent| exponent.unsigned_abs() <= 1000) {
                return text;
            }
        }
    }

    fn exponent(text: &str) -> Option<i128> {
        let digits = text.rsplit_once(['e', 'E'])?.1;
        match digits.parse::<i128>() {
            Ok(exponent) => Some(exponent),
            Err(error) => match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Some(i128::MAX),
                _ => None,
            },
        }
    }

    /// The billionths in a decimal from Go; `None` if they exceed the bounds of `Quantity`.
    fn billionths(decimal: &str) -> Option<i128> {
        let magnitude = decimal.strip_prefix('-').unwrap_or(decimal);
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
        let (nine, rest) = fraction.split_at(fraction.len().min(9));
        assert!(rest.bytes().all(|digit| digit == b'0'), "{decimal}");
        let nanos: i128 = format!("{whole}{nine:0<9}").parse().ok()?;
        Some(if magnitude == decimal { nanos } else { -nanos })
    }

    /// The billionths in our canonical form.
    fn billionths_shown(canonical: &str) -> i128 {
        let end = canonical.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(canonical.len());
        let (mantissa, suffix) = canonical.split_at(end);
        let unit = if let Some(exponent) = suffix.strip_prefix('e') {
            10_i128.pow((9 + exponent.parse::<i32>().unwrap()).try_into().unwrap())
        } else if let Some(prefix) = suffix.strip_suffix('i') {
            1_000_000_000 << (10 * (1 + "KMGTPE".find(prefix).unwrap()))
        } else {
            let place = "num kMGTPE".find(suffix).filter(|_| !suffix.is_empty());
            1000_i128.pow(place.unwrap_or(3).try_into().unwrap())
        };
        mantissa.parse::<i128>().unwrap() * unit
    }

    /// Go has no suffix for 10^21 and above, and omits it.
    fn lost_its_suffix(theirs: &str, ours: &str) -> bool {
        (1..=3).any(|steps| ours == format!("{theirs}{}E", "000".repeat(steps)))
    }

    /// Returns the error in a quantity that both sides read as `value`, if any.
    fn difference(quantity: Quantity, value: &str, canonical: &str) -> Option<String> {
        let shown = quantity.to_string();
        let nanos = billionths_shown(&shown);
        let whole = (nanos % 1_000_000_000 == 0).then_some(nanos / 1_000_000_000);
        if billionths(value) != Some(nanos) {
            Some(format!("value {value}, not {shown}"))
        } else if shown != canonical && !lost_its_suffix(canonical, &shown) {
            Some(format!("canonical {canonical}, not {shown}"))
        } else if quantity.is_zero() != (nanos == 0) || quantity.whole() != whole {
            Some(format!("is_zero or whole of {shown}"))
        } else if shown.parse() != Ok(quantity) {
            Some(format!("{shown} reads as another number"))
        } else {
            None
        }
    }

    #[test]
    fn quantities_match_kubernetes() {
        let mut inputs: Vec<String> = fixed(FIXED, FIXED_ODD);
        inputs.extend(random(CASES, generate));

        let mut accepted = Vec::new();
        let mut out_of_range = 0;
        let mut mismatches = Vec::new();
        for (input, result) in inputs.iter().zip(ask("quantity", &inputs)) {
            let text = |key| result[key].as_str();
            let wrong = match (input.parse::<Quantity>(), text("value"), text("error")) {
                (Ok(ours), Some(value), None) => {
                    let wrong = difference(ours, value, text("canonical").unwrap());
                    accepted.extend(billionths(value).map(|exact| (exact, ours)));
                    wrong
                }
                (Err(ParseQuantityError::OutOfRange(_)), value, error) => {
                    out_of_range += 1;
                    let exponent_too_long = exponent(input).is_some_and(|e| i32::try_from(e).is_err());
                    let too_large = value.is_some_and(|value| billionths(value).is_none());
                    let panicked = error.is_some_and(|error| error.starts_with("panic"));
                    (!exponent_too_long && !too_large && !panicked).then(|| "in range".to_owned())
                }
                (Err(_), None, Some(_)) => None,
                (Ok(_), ..) => Some("an error".to_owned()),
                (Err(error), ..) => Some(format!("accepted, not {error}")),
            };
            mismatches.extend(wrong.map(|wrong| format!("{input:?}: Kubernetes returns {wrong}")));
        }
        report(&mismatches, inputs.len());

        let rejected = inputs.len() - accepted.len() - out_of_range;
        println!("{} accepted, {rejected} rejected, {out_of_range} out of range", accepted.len());
        assert!(accepted.len() > CASES / 3 && rejected > CASES / 10 && out_of_range > CASES / 100);

        let mut rng = Rng::with_seed(SEED);
        for _ in 0..CASES {
            let [left, right] = [(); 2].map(|()| rng.choice(&accepted).unwrap());
            assert_eq!(left.1.cmp(&right.1), left.0.cmp(&right.0), "{left:?} {right:?}");
        }
        // Random pairs are rarely close; neighbors are close or equal.
        accepted.sort_by_key(|(exact, _)| *exact);
        for pair in accepted.windows(2) {
            assert_eq!(pair[0].1.cmp(&pair[1].1), pair[0].0.cmp(&pair[1].0), "{pair:?}");
            assert_eq!(pair[0].1 == pair[1].1, pair[0].0 == pair[1].0, "{pair:?}");
        }
    }
}

mod names {
    use super::*;

    const FIXED: &str = "
        /  //  a  a/b  a/b/c  a/  /b  cpu  hugepages-2Mi  hugepages-x/y
        attachable-volumes-aws-ebs  example.com/dongle  example/x  kubernetes.io/x
        notkubernetes.io/x  x.kubernetes.io/y  example.com/kubernetes.io
        kubernetes.io.example.com/x  Kubernetes.io/x  a/kubernetes.io/b  requests.a/b
        requests./b  requests.  requests/x  requestsx/y  a/requests.b  Requests.a/b  1.2.3.4/5
        a.b-/c  -a/b  a..b/c  a./b  .a/b  a_b/c  A/b  a/B  a/-b  a/b-  a/_b  a/b.  a/b_c.d-e
        a/é  é/a  a:80/b
    ";

    const FIXED_ODD: &[&str] = &["", "BAD name!", "a/b\n", "a\0/b", " a/b", "a/b "];

    const PARTS: &str = "
        example.com  example  a  0  A  x-y  x_y  kubernetes.io  k8s.io  kubernetes  requests.
        requests  dongle  hugepages-2Mi  nvidia.com  io  -  .  ..
    ";

    /// Up to slightly more than the maximum length.
    fn part(rng: &mut Rng) -> String {
        let longest = [63, 244, 253];
        let length = if rng.u8(..4) == 0 { longest[rng.usize(..3)] + rng.usize(..3) - 1 } else { rng.usize(..12) };
        let other = pick(rng, &["", "-", ".", "_.-A"]);
        let alphabet: Vec<char> = "abcxyz0189".chars().chain(other.chars()).collect();
        (0..length).map(|_| *rng.choice(&alphabet).unwrap()).collect()
    }

    fn generate(rng: &mut Rng) -> String {
        let mut text = String::new();
        let separators: &[&str] = match rng.u8(..10) {
            0 => &[""],
            1 => &["", "/"],
            2 => &["", "/", "/"],
            3..6 => &["", ".", "/"],
            _ => &["", "/", ""],
        };
        for separator in separators {
            text.push_str(separator);
            if rng.u8(..3) == 0 {
                text.push_str(pick_word(rng, PARTS));
            } else {
                text.push_str(&part(rng));
            }
        }
        if rng.u8(..4) == 0 {
            text = mutate(rng, &text);
        }
        text
    }

    #[test]
    fn names_match_kubernetes() {
        let mut names: Vec<String> = fixed(FIXED, FIXED_ODD);
        names.extend(random(CASES, generate));
        // Also the parts alone, for checks that do not concern slashes.
        let parts: Vec<String> = names.iter().map(|name| name.rsplit('/').next().unwrap().to_owned()).collect();

        let checks = [
            ("resource-name", is_extended as fn(&str) -> bool, &names),
            ("label-key", is_qualified_name, &names),
            ("label-value", is_label_value, &parts),
            ("subdomain", is_dns_subdomain, &parts),
        ];
        for (mode, ours, inputs) in checks {
            let theirs: Vec<bool> =
                ask(mode, inputs).into_iter().map(|result| result.as_bool().expect("true or false")).collect();
            let mismatches: Vec<String> = inputs
                .iter()
                .zip(&theirs)
                .filter(|(input, theirs)| ours(input) != **theirs)
                .map(|(input, theirs)| format!("{mode} {input:?}: Kubernetes returns {theirs}"))
                .collect();
            report(&mismatches, inputs.len());
            let good = theirs.iter().filter(|good| **good).count();
            println!("{mode}: {good} of {} are good", inputs.len());
            assert!(good > CASES / 10 && good < CASES * 9 / 10);
        }
        for name in &names {
            assert_eq!(ResourceName::parse(name).is_ok(), is_extended(name), "{name:?}");
        }
    }
}
