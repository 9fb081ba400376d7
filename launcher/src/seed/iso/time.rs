//! A time in the two forms of an image, always UTC.

use crate::error::{Error, Result};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

pub(super) struct Time(DateTime);

impl Time {
    /// The time in seconds since 1970. Years go up to 2155: a record has one byte for them, counted from
    /// 1900.
    pub(super) fn of(seconds: u64) -> Result<Time> {
        let moment = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let moment =
            moment.map(|moment| Offset::UTC.to_datetime(moment)).filter(|moment| moment.year() <= 2155);
        moment.map(Time).ok_or_else(|| {
            Error::refused(format!(
                "an ISO image cannot be dated {seconds} seconds after 1970: its last year is 2155"
            ))
        })
    }

    /// The time in the form of a record.
    pub(super) fn short(&self) -> [u8; 7] {
        let part = i8::cast_unsigned;
        let at = self.0;
        // `of` has checked that the year fits.
        let year = (at.year() - 1900) as u8;
        [year, part(at.month()), part(at.day()), part(at.hour()), part(at.minute()), part(at.second()), 0]
    }

    /// The time in the form of a volume.
    pub(super) fn long(&self) -> [u8; 17] {
        let text = format!("{}00\0", self.0.strftime("%Y%m%d%H%M%S"));
        let mut long = [0; 17];
        long.copy_from_slice(text.as_bytes());
        long
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn a_moment_in_both_forms() {
        for (seconds, long, year) in [
            (0, "1970010100000000\0", 70),
            (951_782_400, "2000022900000000\0", 100),
            (951_868_799, "2000022923595900\0", 100),
            (1_795_289_882, "2026112119380200\0", 126),
            (5_869_583_999, "2155123123595900\0", 255),
        ] {
            let time = Time::of(seconds).unwrap();
            assert_eq!(std::str::from_utf8(&time.long()).unwrap(), long);
            assert_eq!(time.short()[0], year);
        }
        assert!(Time::of(5_869_584_000).is_err());
        assert!(Time::of(u64::MAX).is_err());
    }
}
