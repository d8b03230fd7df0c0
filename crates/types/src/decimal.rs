//! Mantissas as decimal text.

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

#[cfg(test)]
mod tests {
    use super::*;

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
