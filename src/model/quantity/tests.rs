use super::*;

fn parse(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn error(text: &str) -> ParseQuantityError {
    text.parse::<Quantity>().unwrap_err()
}

/// Each is written as input=canonical.
fn assert_canonical(forms: &str) {
    for form in forms.split_whitespace() {
        let (text, canonical) = form.split_once('=').unwrap();
        assert_eq!(parse(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn quantity_display_is_the_canonical_form() {
    assert_canonical(
        "1000=1k  1000000=1M  1024=1024  0.5k=500  1000m=1  -1500m=-1500m  12E=12E
         1Ki=1Ki  1024Ki=1Mi  1.5Gi=1536Mi  0.5Ki=512  0.0001Ki=102400u  -2048=-2048
         1e3=1e3  1E3=1e3  1e2=100  1e+2=100  1e-1=100e-3  1500e3=1500e3
         4.0=4  4.=4  .5=500m  +4=4  007=7  0=0  9007199254740993=9007199254740993
         8Ei=9223372036854775807  -8Ei=-9223372036854775807  7Ei=7Ei",
    );
}

#[test]
fn quantity_rounds_away_from_zero_to_a_billionth() {
    assert_canonical(
        "0.1n=1n  -0.1n=-1n  1.0000000001=1000000001n  1.0000000010=1000000001n
         0.00000000093132257461547851562500Gi=1  1e-2147483648=1e-9
         0.00000000093132257461547851562501Gi=1000000001n",
    );
}

/// Kubernetes would write 1, 10 and 1 for the first three.
#[test]
fn quantity_display_keeps_the_suffix_above_exa() {
    assert_canonical("1000E=1000E  10000E=10000E  1000000E=1000000E  1e21=1e21");
}

#[test]
fn quantity_parses_unusual_forms_like_kubernetes() {
    for zero in "0 + - . -. k .n Ti e-9 -0.0 0e-2147483648".split(' ') {
        assert!(parse(zero).is_zero(), "{zero}");
        assert_eq!(parse(zero).to_string(), "0", "{zero}");
    }
}

#[test]
fn quantity_comparison_ignores_notation() {
    assert_eq!(parse("1Ki"), parse("1024"));
    assert_eq!(parse("1k"), Quantity::from(1000));
    assert!(parse("1k") < parse("1Ki"));
    assert!(parse("-1") < parse("1n"));
    assert_eq!(parse("4.0").whole(), Some(4));
    assert_eq!(parse("9223372036854775808").whole(), Some(1 << 63));
    assert_eq!(parse("1.5Gi").whole(), Some(1_610_612_736));
    assert_eq!(parse("4001m").whole(), None);
}

#[test]
fn quantity_error_suggests_what_to_write() {
    assert_eq!(error("").to_string(), "the quantity is empty: write a number, such as 4");
    assert_eq!(error("four").to_string(), r#""four" is not a number: write digits, such as 4, 1.5Gi or 500m"#);
    assert_eq!(
        error("4KB").to_string(),
        r#""4KB" ends in "KB", which is no suffix of a quantity: did you mean k (1000) or Ki (1024)?"#
    );
    assert_eq!(
        error("1e30").to_string(),
        r#""1e30" is out of range: write a number below 1.7e29, with a shorter exponent if any"#
    );
}

#[test]
fn quantity_error_kind_matches_the_input() {
    for text in "x --1 +-1 Pi e-10 .. \u{ff11}".split(' ') {
        assert_eq!(error(text), ParseQuantityError::NotANumber(text.to_owned()));
    }
    for text in ["1K", "1ki", "1i", "1e", "1e1.5", "0x1", "1_0", "1,0", "4 ", "12E2Ki"] {
        let error = error(text);
        assert!(matches!(error, ParseQuantityError::UnknownSuffix { .. }));
    }
    let huge = "1e30 1e2147483647 1e2147483648 0.5e-2147483648 0e-99999999999999999999
                -170141183460469231731687303715.8841057271";
    for text in huge.split_whitespace() {
        assert_eq!(error(text), ParseQuantityError::OutOfRange(text.to_owned()));
    }
}

#[test]
fn quantity_out_of_bounds_is_rejected() {
    let most = parse("170141183460469231731687303715.884105727");
    assert_eq!(most.nanos, i128::MAX);

    let nines = "9".repeat(1 << 20);
    assert!(matches!(error(&nines), ParseQuantityError::OutOfRange(_)));
    let whole = |text: String| parse(&text).whole();
    assert_eq!(whole(format!("{nines}Ki")), Some(i64::MAX.into()));
    assert_eq!(whole(format!("0.{nines}")), Some(1));
    assert_eq!(whole(format!("{nines}e-{}", nines.len())), Some(1));
    assert_eq!(whole(format!("{}1", "0".repeat(1 << 20))), Some(1));
}

#[test]
fn quantity_ceil_is_the_next_whole_number() {
    for (text, whole) in [("4", "4"), ("1Gi", "1Gi"), ("1n", "1"), ("3500m", "4"), ("-1500m", "-1"), ("0", "0")] {
        assert_eq!(parse(text).ceil().to_string(), whole, "{text}");
    }
}
