//! `-l`: label selectors in kubectl's syntax.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::Peekable;
use std::str::FromStr;
use std::vec::IntoIter;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector, SelectorExt as _};
use thiserror::Error;

use crate::model::label;

/// The required labels of a node. Without requirements, every node matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelFilter(Selector);

/// Why a text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidLabelFilter {
    /// Unexpected input.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// No label has such a key.
    #[error("{0:?} is not a label key")]
    Key(String),
    /// No label has such a value.
    #[error("{0:?} is not a label value")]
    Value(String),
    /// A comparison of numbers, which is not supported.
    #[error("{0} is not supported: write =, !=, in or notin")]
    Comparison(char),
}

impl LabelFilter {
    /// Returns whether a node with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }

    /// Returns the selector as objects have it.
    #[must_use]
    pub fn to_label_selector(&self) -> LabelSelector {
        self.0.clone().into()
    }

    /// Returns whether every node is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.selects_all()
    }
}

impl fmt::Display for LabelFilter {
    /// As it can be given again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LabelFilter {
    type Err = InvalidLabelFilter;

    /// Parses `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k` and `!k`, separated by commas. As in kubectl,
    /// the empty text selects everything.
    fn from_str(text: &str) -> Result<Self, InvalidLabelFilter> {
        let mut tokens = Tokens(tokens(text)?.into_iter().peekable());
        let mut expressions = Vec::new();
        if tokens.0.peek().is_some() {
            expressions.push(tokens.requirement()?);
        }
        while let Some(token) = tokens.0.next() {
            if token != Token::Symbol(",") {
                return Err(unexpected(Some(token), "a comma"));
            }
            expressions.push(tokens.requirement()?);
        }
        Ok(Self(expressions.into_iter().collect()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Symbol(&'static str),
    Word(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, InvalidLabelFilter> {
    const SYMBOLS: [&str; 7] = ["==", "!=", "=", "!", "(", ")", ","];
    let is_word = |char: char| !char.is_whitespace() && !"=!(),<>".contains(char);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(char) = rest.chars().next() {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let length = match symbol {
            Some(symbol) => {
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            }
            None if is_word(char) => {
                let word: String = rest.chars().take_while(|char| is_word(*char)).collect();
                let length = word.len();
                tokens.push(Token::Word(word));
                length
            }
            None => return Err(InvalidLabelFilter::Comparison(char)),
        };
        rest = rest.split_at(length).1.trim_start();
    }
    Ok(tokens)
}

fn unexpected(found: Option<Token>, expected: &'static str) -> InvalidLabelFilter {
    let found = match found {
        Some(Token::Symbol(symbol)) => format!("{symbol:?}"),
        Some(Token::Word(word)) => format!("\"{}\"", label::excerpt(&word)),
        None => "the end".to_owned(),
    };
    InvalidLabelFilter::Unexpected { found, expected }
}

struct Tokens(Peekable<IntoIter<Token>>);

impl Tokens {
    fn requirement(&mut self) -> Result<Expression, InvalidLabelFilter> {
        if self.0.next_if_eq(&Token::Symbol("!")).is_some() {
            return Ok(Expression::DoesNotExist(self.key()?));
        }
        let key = self.key()?;
        let operator = self.0.next_if(|token| *token != Token::Symbol(","));
        Ok(match operator {
            None => Expression::Exists(key),
            Some(Token::Symbol("=" | "==")) => Expression::Equal(key, self.value()?),
            Some(Token::Symbol("!=")) => Expression::NotEqual(key, self.value()?),
            Some(Token::Word(word)) if word == "in" => Expression::In(key, self.values()?),
            Some(Token::Word(word)) if word == "notin" => Expression::NotIn(key, self.values()?),
            other => return Err(unexpected(other, "=, !=, in, notin or a comma")),
        })
    }

    fn key(&mut self) -> Result<String, InvalidLabelFilter> {
        match self.0.next() {
            Some(Token::Word(key)) if label::is_qualified_name(&key) => Ok(key),
            Some(Token::Word(key)) => Err(InvalidLabelFilter::Key(label::excerpt(&key))),
            other => Err(unexpected(other, "a label key")),
        }
    }

    /// The value may be empty, with no token.
    fn value(&mut self) -> Result<String, InvalidLabelFilter> {
        match self.0.next_if(|token| matches!(token, Token::Word(_))) {
            Some(Token::Word(value)) if !label::is_label_value(&value) => {
                Err(InvalidLabelFilter::Value(label::excerpt(&value)))
            }
            Some(Token::Word(value)) => Ok(value),
            _ => Ok(String::new()),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, InvalidLabelFilter> {
        if self.0.next_if_eq(&Token::Symbol("(")).is_none() {
            return Err(unexpected(self.0.next(), "\"(\""));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.0.next() {
                Some(Token::Symbol(",")) => {}
                Some(Token::Symbol(")")) => return Ok(values),
                other => return Err(unexpected(other, "a comma or \")\"")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_filter_matches_like_kubectl() {
        let labels = [("zone", "a"), ("ssd", ""), ("in", "x"), ("example.com/pool", "build")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (text, selects) in [
            ("", true),
            ("  ", true),
            ("zone=a", true),
            ("zone==a", true),
            (" zone = a ", true),
            ("zone=b", false),
            ("rack=", false),
            ("ssd=", true),
            ("ssd=,zone=a", true),
            ("zone!=a", false),
            ("zone!=b", true),
            ("rack!=a", true),
            ("ssd!=", false),
            ("zone in (a,b)", true),
            ("zone in(b , c)", false),
            ("ssd in ()", true),
            ("ssd in (a,)", true),
            ("zone notin (a,b)", false),
            ("zone notin (b)", true),
            ("rack notin (b)", true),
            ("zone", true),
            ("rack", false),
            ("!rack", true),
            ("! zone", false),
            ("in", true),
            ("in in (x)", true),
            ("example.com/pool=build,zone in (a),!rack", true),
            ("example.com/pool=build,zone in (a),rack", false),
        ] {
            let filter: LabelFilter = text.parse().expect(text);
            assert_eq!(filter.matches(&labels), selects, "{text}");
        }
    }

    #[test]
    fn label_filter_rejects_what_kubectl_rejects() {
        for (text, message) in [
            (",", "expected a label key, found \",\""),
            ("a=b,", "expected a label key, found the end"),
            ("=b", "expected a label key, found \"=\""),
            ("a=b c", "expected a comma, found \"c\""),
            ("a b", "expected =, !=, in, notin or a comma, found \"b\""),
            ("a=b=c", "expected a comma, found \"=\""),
            ("a in b", "expected \"(\", found \"b\""),
            ("a in (b", "expected a comma or \")\", found the end"),
            ("a in", "expected \"(\", found the end"),
            ("!!a", "expected a label key, found \"!\""),
            ("!a=b", "expected a comma, found \"=\""),
            ("a>1", "> is not supported: write =, !=, in or notin"),
            ("a b/c", "found \"b/c\""),
            ("-a", "\"-a\" is not a label key"),
            ("a=-b", "\"-b\" is not a label value"),
            ("a=\u{f6}", "is not a label value"),
        ] {
            let error = text.parse::<LabelFilter>().expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
