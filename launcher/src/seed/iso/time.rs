//! A moment, in the two ways a disc writes it. Always UTC.

use crate::error::{Error, Result};

pub(super) struct Time {
    year: u64,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
}

impl Time {
    /// A moment in seconds since 1970. Years go up to 2155: a record has one byte for them, counted from 1900.
    pub(super) fn of(seconds: u64) -> Result<Time> {
        // The last second of 2155.
        const LAST: u64 = 5_869_583_999;
        if seconds > LAST {
            return Err(Error::refused(format!(
                "a disc cannot be dated {seconds} seconds after 1970: it ends with the year 2155"
            )));
        }
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March, in eras of 400: the leap day comes last in each.
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Ok(Time {
            year,
            month: month as u8,
            day: day as u8,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
        })
    }

    /// As a record has it.
    pub(super) fn short(&self) -> [u8; 7] {
        // `of` has seen to it that the year fits.
        [(self.year - 1900) as u8, self.month, self.day, self.hour, self.minute, self.second, 0]
    }

    /// As a volume has it.
    pub(super) fn long(&self) -> [u8; 17] {
        let Time { year, month, day, hour, minute, second } = self;
        let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}00\0");
        let mut long = [0; 17];
        long.copy_from_slice(text.as_bytes());
        long
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn moments() {
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
