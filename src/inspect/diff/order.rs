//! The order of node names: `node-2` before `node-10`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The name of a node. Digits in it compare as numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeName(pub Arc<str>);

impl Ord for NodeName {
    fn cmp(&self, other: &Self) -> Ordering {
        // `node-1` and `node-01` are two nodes.
        natural(self.0.as_bytes(), other.0.as_bytes()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for NodeName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn natural(mut this: &[u8], mut other: &[u8]) -> Ordering {
    loop {
        let (Some((a, after_a)), Some((b, after_b))) = (this.split_first(), other.split_first()) else {
            return this.len().cmp(&other.len());
        };
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (number, rest) = split_number(this);
            let (other_number, other_rest) = split_number(other);
            (this, other) = (rest, other_rest);
            // Of any length: without leading zeros, the longer number is larger.
            number.len().cmp(&other_number.len()).then_with(|| number.cmp(other_number))
        } else {
            (this, other) = (after_a, after_b);
            a.cmp(b)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Splits off the leading digits, without their leading zeros.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    (digits.split_at(zeros).1, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_name_order_compares_digits_as_numbers() {
        let sorted = [
            "",
            "10.0.0.2",
            "10.0.0.10",
            "a",
            "a-b",
            "a1",
            "node",
            "node-0",
            "node-00",
            "node-01",
            "node-1",
            "node-1-a",
            "node-2",
            "node-10",
            "node-99999999999999999999999998",
            "node-99999999999999999999999999",
            "node-100000000000000000000000000",
            "node-x",
            "node1",
            "\u{f6}",
        ];
        let names = sorted.map(|name| NodeName(name.into()));
        for (at, name) in names.iter().enumerate() {
            for (other_at, other) in names.iter().enumerate() {
                assert_eq!(name.cmp(other), at.cmp(&other_at), "{name} {other}");
            }
        }
    }
}
