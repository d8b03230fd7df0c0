//! Mantissas as decimal text, and decimal text as mantissas.

/// Returns a mantissa times ten to `exponent` as a decimal number, exactly. With a negative
/// exponent it has that many places, also where they are zero.
#[must_use]
pub fn decimal(mantissa: i128, exponent: i8) -> String {
    let digits = mantissa.unsigned_abs().to_string();
    let sign = if mantissa < 0 { "-" } else { "" };
    if exponent >= 0 {
        let zeros = if mantissa == 0 { 0 } else { usize::from(exponent.unsigned_abs()) };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    }
    let places = usize::from(exponent.unsigned_abs());
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// The reason a text is no mantissa of an exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalFault {
    /// It is not a decimal number.
    Malformed,
    /// It is no multiple of ten to the exponent.
    Step,
    /// Its mantissa does not fit.
    TooLarge,
}

/// Returns the mantissa of a decimal number: the reverse of [`decimal`], exactly.
///
/// # Errors
/// [`DecimalFault`].
pub fn mantissa(text: &str, exponent: i8) -> Result<i128, DecimalFault> {
    let (sign, number) = text.strip_prefix('-').map_or((1, text), |number| (-1, number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(DecimalFault::Malformed);
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits = format!("{whole}{fraction}");
    let places = i64::try_from(fraction.len()).map_err(|_| DecimalFault::TooLarge)?;
    for _ in places..-i64::from(exponent) {
        digits.push('0');
    }
    for _ in -i64::from(exponent)..places {
        // The digit is missing where the number is below one step: then only zero is a multiple.
        if digits.pop().is_some_and(|digit| digit != '0') {
            return Err(DecimalFault::Step);
        }
    }
    match digits.trim_start_matches('0') {
        "" => Ok(0),
        digits => digits.parse().map(|all: i128| sign * all).map_err(|_| DecimalFault::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mantissa_comes_back_from_its_decimal() {
        for exponent in [i8::MIN, -9, -2, 0, 3, i8::MAX] {
            for number in [0, 1, -1, 5, 100, 58_653, i128::from(i64::MIN), i128::from(u64::MAX)] {
                assert_eq!(mantissa(&decimal(number, exponent), exponent), Ok(number));
            }
        }
    }

    #[test]
    fn a_text_without_a_mantissa_has_its_fault() {
        let cases = [
            ("", 0, Err(DecimalFault::Malformed)),
            ("-", 0, Err(DecimalFault::Malformed)),
            (".5", -1, Err(DecimalFault::Malformed)),
            ("5.", -1, Err(DecimalFault::Malformed)),
            ("1e3", 0, Err(DecimalFault::Malformed)),
            ("10.05", -1, Err(DecimalFault::Step)),
            ("150", 2, Err(DecimalFault::Step)),
            ("5", 2, Err(DecimalFault::Step)),
            ("340282366920938463463374607431768211456", 0, Err(DecimalFault::TooLarge)),
            ("0", 2, Ok(0)),
            ("10.0500", -2, Ok(1_005)),
            ("-0.5", -2, Ok(-50)),
        ];
        for (text, exponent, want) in cases {
            assert_eq!(mantissa(text, exponent), want, "{text}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        let cases = [
            (58_653, -2, "586.53"),
            (-5, -2, "-0.05"),
            (0, -4, "0.0000"),
            (7, 0, "7"),
            (7, 3, "7000"),
            (0, 3, "0"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ];
        for (mantissa, exponent, want) in cases {
            assert_eq!(decimal(mantissa, exponent), want);
        }
    }
}
