//! Byte counts for people.

use std::fmt;

/// "512 bytes", "1.5 GiB": the largest unit that leaves at least one before the point, one digit after it.
pub(crate) struct Human(pub(crate) u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Human(bytes) = *self;
        let power = (63 - (bytes | 1).leading_zeros()) / 10;
        if power == 0 {
            return write!(f, "{bytes} bytes");
        }
        let unit = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power as usize - 1];
        // Cut, not rounded: "1.0 GiB" is never a byte less than that.
        let tenths = (u128::from(bytes) * 10) >> (10 * power);
        write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::Human;

    #[test]
    fn units() {
        let cases = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            ((1 << 30) - 1, "1023.9 MiB"),
            (3 << 29, "1.5 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Human(bytes).to_string(), text);
        }
        assert_eq!(Human(u64::MAX).to_string(), "15.9 EiB");
    }
}
