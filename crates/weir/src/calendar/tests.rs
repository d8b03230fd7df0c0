//! Calendars of zones, of offsets and over midnight, and the faults of each.

use proptest::prelude::*;
use weir_runtime::civil::parse_moment;

use super::*;

const WEEK: &str = r#"
    utc_offset = "+01:00"
    days = ["mon", "tue", "wed", "thu", "fri"]
    holidays = ["2026-12-25", "2027-01-01"]
    utc_offset_from = { "2027-03-28" = "+02:00" }
    phase = [
        { at = "08:50", name = "opening-call" },
        { at = "09:00", name = "continuous" },
        { at = "17:30", name = "closing-call" },
        { at = "17:35:30", name = "closed" },
    ]
    [[special]]
    date = "2026-12-24"
    phase = [{ at = "09:00", name = "continuous" }, { at = "14:00", name = "closed" }]
"#;

/// A market that trades for 23 hours, from 17:00 on.
const OVER_MIDNIGHT: &str = r#"
    timezone = "America/Chicago"
    days = ["sun", "mon", "tue", "wed", "thu"]
    phase = [
        { at = "16:45", name = "opening-call" },
        { at = "17:00", name = "continuous" },
        { at = "+1 16:00", name = "closed" },
    ]
"#;

/// Each day of the week has one opening and one close.
fn every_day(zone: &str, open: &str, close: &str) -> String {
    format!(
        "{zone}\n\
         days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']\n\
         phase = [{{ at = '{open}', name = 'continuous' }}, \
         {{ at = '{close}', name = 'closed' }}]\n"
    )
}

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

fn moment(text: &str) -> Nanos {
    parse_moment(text, Nanos(0)).unwrap()
}

fn lines(changes: &[CalendarChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

fn error_of(text: &str) -> String {
    format!("{:#}", Calendar::parse(text).unwrap_err())
}

#[test]
fn a_day_has_its_phases_at_their_local_times() {
    let calendar = Calendar::parse(WEEK).unwrap();
    let want = [
        "2026-11-23T08:50:00+01:00  2026-11-23T07:50:00Z  opening-call",
        "2026-11-23T09:00:00+01:00  2026-11-23T08:00:00Z  continuous",
        "2026-11-23T17:30:00+01:00  2026-11-23T16:30:00Z  closing-call",
        "2026-11-23T17:35:30+01:00  2026-11-23T16:35:30Z  closed",
    ];
    assert_eq!(lines(&calendar.changes(day("2026-11-23"), 1).unwrap()), want);
}

#[test]
fn holidays_weekends_special_days_and_summer_time_are_kept() {
    let calendar = Calendar::parse(WEEK).unwrap();
    let cases = [("2026-12-24", 2), ("2026-12-25", 0), ("2026-12-26", 0), ("2026-12-28", 4)];
    for (date, count) in cases {
        assert_eq!(calendar.changes(day(date), 1).unwrap().len(), count, "{date}");
    }
    let summer = calendar.changes(day("2027-03-29"), 1).unwrap()[1].at;
    assert_eq!(utc(summer), "2027-03-29T07:00:00Z");
    assert_eq!(calendar.date_of(moment("2026-11-22T23:30:00Z")), day("2026-11-23"));
}

/// As calendars were before they knew zones: by the offset that holds on a date.
#[test]
fn a_calendar_with_offsets_makes_the_changes_that_it_made_before() {
    let calendar = Calendar::parse(WEEK).unwrap();
    let offsets = ["+01:00", "+02:00"].map(|offset| offset.parse::<UtcOffset>().unwrap());
    let (first, summer, count) = (day("1970-01-02"), day("2027-03-28"), 30_000);
    let mut want = Vec::new();
    for date in (0..count).map(|days| first.plus(days)) {
        let offset = offsets[usize::from(date >= summer)];
        let is_holiday = ["2026-12-25", "2027-01-01"].contains(&&*date.to_string());
        let is_special = date == day("2026-12-24");
        let times: &[(&str, Phase)] = match (is_special, is_holiday || date.weekday() > 4) {
            (true, _) => &[("09:00", Phase::Continuous), ("14:00", Phase::Closed)],
            (false, true) => &[],
            (false, false) => &[
                ("08:50", Phase::OpeningCall),
                ("09:00", Phase::Continuous),
                ("17:30", Phase::ClosingCall),
                ("17:35:30", Phase::Closed),
            ],
        };
        for (time, phase) in times {
            want.push((date.moment(time.parse().unwrap(), offset).unwrap(), *phase));
        }
    }
    let changes = calendar.changes(first, count).unwrap();
    let made: Vec<_> = changes.iter().map(|change| (change.at, change.phase)).collect();
    assert!(made.len() > 80_000);
    assert_eq!(made, want);
}

#[test]
fn trading_begins_at_nine_before_and_behind_both_changes_of_daylight_saving_time() {
    let berlin = Calendar::parse(&every_day("timezone = 'Europe/Berlin'", "09:00", "17:30"));
    let new_york = Calendar::parse(&every_day("timezone = 'America/New_York'", "09:00", "16:00"));
    let (berlin, new_york) = (berlin.unwrap(), new_york.unwrap());
    for (calendar, date, want) in [
        (&berlin, "2026-03-28", "2026-03-28T09:00:00+01:00  2026-03-28T08:00:00Z  continuous"),
        (&berlin, "2026-03-29", "2026-03-29T09:00:00+02:00  2026-03-29T07:00:00Z  continuous"),
        (&berlin, "2026-10-24", "2026-10-24T09:00:00+02:00  2026-10-24T07:00:00Z  continuous"),
        (&berlin, "2026-10-25", "2026-10-25T09:00:00+01:00  2026-10-25T08:00:00Z  continuous"),
        (&new_york, "2026-03-07", "2026-03-07T09:00:00-05:00  2026-03-07T14:00:00Z  continuous"),
        (&new_york, "2026-03-08", "2026-03-08T09:00:00-04:00  2026-03-08T13:00:00Z  continuous"),
        (&new_york, "2026-10-31", "2026-10-31T09:00:00-04:00  2026-10-31T13:00:00Z  continuous"),
        (&new_york, "2026-11-01", "2026-11-01T09:00:00-05:00  2026-11-01T14:00:00Z  continuous"),
    ] {
        let changes = calendar.changes(day(date), 1).unwrap();
        assert_eq!((changes.len(), &*changes[0].to_string()), (2, want));
    }
    // The date of a moment is that of the zone, in summer too.
    assert_eq!(berlin.date_of(moment("2026-07-01T22:00:00Z")), day("2026-07-02"));
    assert_eq!(new_york.date_of(moment("2026-07-02T03:59:59Z")), day("2026-07-01"));
}

#[test]
fn a_time_that_a_zone_skips_or_repeats_is_refused_with_its_date_and_zone() {
    let cases = [
        (
            ["Europe/Berlin", "2027-03-28", "02:30"],
            "does not exist in Europe/Berlin, whose clock goes from +01:00 to +02:00",
        ),
        (
            ["Europe/Berlin", "2026-10-25", "02:30"],
            "is there twice in Europe/Berlin, at +02:00 and at +01:00",
        ),
        (
            ["America/New_York", "2027-03-14", "02:30"],
            "does not exist in America/New_York, whose clock goes from -05:00 to -04:00",
        ),
        (
            ["America/New_York", "2026-11-01", "01:30"],
            "is there twice in America/New_York, at -04:00 and at -05:00",
        ),
    ];
    for ([zone, date, time], fault) in cases {
        let text = every_day(&format!("timezone = '{zone}'"), "00:30", time);
        let calendar = Calendar::parse(&text).unwrap();
        assert!(calendar.changes(day(date).minus(9), 9).is_ok(), "{zone}: other dates are fine");
        let error = format!("{:#}", calendar.changes(day(date), 1).unwrap_err());
        let want = format!(
            "phase[1].at on {date}: {date} {time}:00 {fault}: write another time, for this day \
             alone in a [[special]] with date = \"{date}\""
        );
        assert_eq!(error, want);
        // What the message says helps; the same fault on the special day is found with the file.
        let special = |close: &str| {
            format!(
                "{text}[[special]]\ndate = '{date}'\n\
                 phase = [{{ at = '00:30', name = 'continuous' }}, \
                 {{ at = '{close}', name = 'closed' }}]\n"
            )
        };
        let calendar = Calendar::parse(&special("04:00")).unwrap();
        assert_eq!(calendar.changes(day(date), 1).unwrap().len(), 2);
        let error = error_of(&special(time));
        assert!(error.starts_with(&format!("special[0].phase[1].at on {date}: ")), "{error}");
    }
}

#[test]
fn a_fault_in_the_year_to_come_is_found_before_anything_is_filed() {
    let text = every_day("timezone = 'Europe/Berlin'", "02:30", "17:30");
    let calendar = Calendar::parse(&text).unwrap();
    let first = day("2026-11-02");
    let now = moment("2026-11-01T12:00:00Z");
    let error = format!("{:#}", calendar.changes_to_come(Some(first), 7, now).unwrap_err());
    assert!(error.starts_with("phase[0].at on 2027-03-28: "), "{error}");
    let text = text.replace("02:30", "03:30");
    let calendar = Calendar::parse(&text).unwrap();
    assert_eq!(calendar.changes_to_come(Some(first), 7, now).unwrap().len(), 14);
}

#[test]
fn a_session_over_midnight_is_one_day_of_the_date_on_which_it_begins() {
    let calendar = Calendar::parse(OVER_MIDNIGHT).unwrap();
    // Thursday's session ends on Friday; none begins then, nor on Saturday; Sunday's begins behind
    // the end of daylight saving time.
    let changes = calendar.changes(day("2026-10-29"), 4).unwrap();
    let want = [
        "2026-10-29T16:45:00-05:00  2026-10-29T21:45:00Z  opening-call",
        "2026-10-29T17:00:00-05:00  2026-10-29T22:00:00Z  continuous",
        "2026-10-30T16:00:00-05:00  2026-10-30T21:00:00Z  closed",
        "2026-11-01T16:45:00-06:00  2026-11-01T22:45:00Z  opening-call",
        "2026-11-01T17:00:00-06:00  2026-11-01T23:00:00Z  continuous",
        "2026-11-02T16:00:00-06:00  2026-11-02T22:00:00Z  closed",
    ];
    assert_eq!(lines(&changes), want);
    let days: Vec<_> = changes.iter().map(|change| change.day.to_string()).collect();
    assert_eq!([&days[2], &days[5]], ["2026-10-29", "2026-11-01"]);
    // Behind its beginning in spring.
    let spring = calendar.changes(day("2026-03-08"), 1).unwrap();
    assert_eq!(lines(&spring)[1], "2026-03-08T17:00:00-05:00  2026-03-08T22:00:00Z  continuous");
    // A holiday takes the day that begins on it, not the end of the one before.
    let text = OVER_MIDNIGHT.replace("phase =", "holidays = ['2026-11-26']\nphase =");
    let calendar = Calendar::parse(&text).unwrap();
    let changes = calendar.changes(day("2026-11-25"), 2).unwrap();
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[2].local(), "2026-11-26T16:00:00-06:00");
}

#[test]
fn a_session_that_spans_a_change_of_the_clock_is_an_hour_shorter_or_longer() {
    let text = every_day("timezone = 'America/Chicago'", "17:00", "+1 16:00");
    let calendar = Calendar::parse(&text).unwrap();
    for (date, hours) in [("2026-03-06", 23), ("2026-03-07", 22), ("2026-10-31", 24)] {
        let changes = calendar.changes(day(date), 1).unwrap();
        assert_eq!(changes[1].at.0 - changes[0].at.0, hours * 3_600_000_000_000, "{date}");
    }
}

#[test]
fn a_leap_day_is_a_date_like_others() {
    let calendar = Calendar::parse(OVER_MIDNIGHT).unwrap();
    let changes = calendar.changes(day("2028-02-28"), 2).unwrap();
    let locals: Vec<_> = changes.iter().map(CalendarChange::local).collect();
    assert_eq!(locals[2], "2028-02-29T16:00:00-06:00");
    assert_eq!(locals[3], "2028-02-29T16:45:00-06:00");
    assert_eq!(locals[5], "2028-03-01T16:00:00-06:00");
}

#[test]
fn the_day_that_began_yesterday_belongs_to_those_to_come() {
    let calendar = Calendar::parse(OVER_MIDNIGHT).unwrap();
    // A Tuesday, 02:00 at Chicago: Monday's session trades until 16:00.
    let now = moment("2026-11-24T08:00:00Z");
    let locals = |first, day_count| -> Vec<String> {
        let changes = calendar.changes_to_come(first, day_count, now).unwrap();
        changes.iter().map(CalendarChange::local).collect()
    };
    let tuesday =
        ["2026-11-24T16:45:00-06:00", "2026-11-24T17:00:00-06:00", "2026-11-25T16:00:00-06:00"];
    let all = [&["2026-11-24T16:00:00-06:00"][..], &tuesday].concat();
    assert_eq!(locals(None, 1), all);
    // A first day that is given is the first.
    assert_eq!(locals(Some(day("2026-11-24")), 1), tuesday);
    assert_eq!(locals(Some(day("2026-11-23")), 1), ["2026-11-24T16:00:00-06:00"]);
}

#[test]
fn days_that_overlap_are_refused_by_key_and_date() {
    let special = |date: &str, open: &str, close: &str| {
        let phases = format!(
            "phase = [{{ at = '{open}', name = 'continuous' }}, \
             {{ at = '{close}', name = 'closed' }}]"
        );
        format!("{OVER_MIDNIGHT}\n[[special]]\ndate = '{date}'\n{phases}\n")
    };
    let cases = [
        (
            OVER_MIDNIGHT.replace("+1 16:00", "+1 17:30"),
            "mon and tue: phase[2].at: +1 17:30:00 is not before 16:45:00, when the next day \
             begins",
        ),
        // Two changes at one moment.
        (
            OVER_MIDNIGHT.replace("+1 16:00", "+1 16:45"),
            "mon and tue: phase[2].at: +1 16:45:00 is not before 16:45:00, when the next day \
             begins",
        ),
        (
            special("2026-12-24", "10:00", "12:00"),
            "2026-12-23 and 2026-12-24: phase[2].at: +1 16:00:00 is not before 10:00:00, when the \
             next day begins",
        ),
        (
            special("2026-12-23", "17:00", "+1 20:00"),
            "2026-12-23 and 2026-12-24: special[0].phase[1].at: +1 20:00:00 is not before \
             16:45:00, when the next day begins",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(error_of(&text), want);
    }
    // Nothing begins on a Friday.
    Calendar::parse(&special("2026-12-24", "17:00", "+1 20:00")).unwrap();
    let one_day = OVER_MIDNIGHT.replace("\"sun\", \"mon\", \"tue\", \"wed\", \"thu\"", "\"mon\"");
    Calendar::parse(&one_day.replace("+1 16:00", "+1 17:30")).unwrap();
}

#[test]
fn changes_that_an_offset_puts_out_of_order_are_refused_by_key_and_date() {
    let zone = "utc_offset = '+01:00'\nutc_offset_from = { '2027-03-28' = '+02:00' }";
    for (open, close, want) in [
        // Both at 22:30 UTC, which was one change for the node and two for its list.
        (
            "00:30",
            "23:30",
            "phase[0].at on 2027-03-28: 2027-03-28T00:30:00+02:00 is not after \
             2027-03-27T23:30:00+01:00, the change before it",
        ),
        (
            "00:15",
            "23:30",
            "phase[0].at on 2027-03-28: 2027-03-28T00:15:00+02:00 is not after \
             2027-03-27T23:30:00+01:00, the change before it",
        ),
        // Within one day.
        (
            "23:30",
            "+1 00:30",
            "phase[1].at on 2027-03-27: 2027-03-28T00:30:00+02:00 is not after \
             2027-03-27T23:30:00+01:00, the change before it",
        ),
    ] {
        assert_eq!(error_of(&every_day(zone, open, close)), want);
    }
    Calendar::parse(&every_day(zone, "00:31", "23:30")).unwrap();
    // As far as two offsets can be apart, and days without changes between.
    let far = "utc_offset = '-14:00'\nutc_offset_from = { '2027-03-28' = '+14:00' }";
    let text = every_day(far, "00:30", "23:30").replace("'thu', 'fri', 'sat', ", "'thu', 'fri', ");
    let error = error_of(&text);
    assert!(error.starts_with("phase[0].at on 2027-03-28: "), "{error}");
}

proptest! {
    #[test]
    fn changes_ascend_and_ranges_add_up(
        start in 0u32..30_000, first in 0u32..60, second in 0u32..60,
    ) {
        let calendar = Calendar::parse(WEEK).unwrap();
        let start = day("1970-01-02").plus(start);
        let whole = calendar.changes(start, first + second).unwrap();
        prop_assert!(whole.windows(2).all(|pair| pair[0].at < pair[1].at));
        let mut parts = calendar.changes(start, first).unwrap();
        parts.extend(calendar.changes(start.plus(first), second).unwrap());
        prop_assert_eq!(&whole, &parts);
        // Each day that has changes ends closed, on a day that trades.
        for change in whole {
            let date = calendar.date_of(change.at);
            prop_assert_eq!(date, change.day);
            prop_assert!(date >= start && date < start.plus(first + second));
            prop_assert!(date.weekday() < 5 || date == day("2026-12-24"));
            prop_assert!(!calendar.holidays.contains(&date));
            let last = calendar.changes(date, 1).unwrap().last().copied();
            prop_assert_eq!(last.map(|last| last.phase), Some(Phase::Closed));
            prop_assert!(phase_named(phase_name(change.phase)) == Some(change.phase));
        }
    }

    #[test]
    fn changes_over_midnight_ascend_and_read_back_as_their_local_times(
        start in 0u32..47_000, zone in 0usize..4, open in 0u32..1_440, length in 1u32..1_440,
    ) {
        let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let end = (open + length) % 1_440;
        let close = if end > open { clock(end) } else { format!("+1 {}", clock(end)) };
        let open = clock(open);
        let names = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"];
        let text = every_day(&format!("timezone = '{}'", names[zone]), &open, &close);
        let calendar = Calendar::parse(&text).unwrap();
        let start = day("1970-01-03").plus(start);
        // A zone skips or repeats such a time on at most a few dates: each of these is refused.
        let mut all = Vec::new();
        for date in (0..30).map(|count| start.plus(count)) {
            all.extend(calendar.changes(date, 1).unwrap_or_default());
        }
        prop_assert!(all.len() > 40);
        prop_assert!(all.windows(2).all(|pair| pair[0].at < pair[1].at));
        for change in all {
            prop_assert_eq!(parse_moment(&change.local(), Nanos(0)), Ok(change.at));
            let time = if change.phase == Phase::Closed { &close } else { &open };
            let date = change.day.plus(u32::from(time.starts_with("+1 ")));
            let want = format!("{date}T{}:00", time.trim_start_matches("+1 "));
            prop_assert!(change.local().starts_with(&want), "{} {}", change.local(), want);
        }
    }
}

#[test]
fn what_is_wrong_is_named_by_line_or_key() {
    let cases = [
        ("\"mon\"", "\"monday\"", "line 3"),
        ("\"+01:00\"", "\"CET\"", "line 2"),
        ("2026-12-25", "2026-13-25", "line 4"),
        ("2027-03-28", "soon", "utc_offset_from"),
        ("\"08:50\"", "\"8:50\"", "line 7"),
        ("\"17:35:30\"", "\"+2 02:00\"", "on the following date +1 HH:MM"),
        ("\"17:35:30\"", "\"+1  2:00\"", "on the following date +1 HH:MM"),
        ("\"17:35:30\"", "\"+102:00\"", "on the following date +1 HH:MM"),
        ("\"08:50\"", "\"+1 08:50\"", "phase[0].at: +1 08:50:00: a day begins on its own date"),
        ("\"17:30\"", "\"+1 17:30\"", "phase[3].at: 17:35:30 is not after the phase before it"),
        ("\"opening-call\"", "\"opening\"", "want closed, continuous"),
        ("\"08:50\"", "\"09:30\"", "phase[1].at"),
        ("\"09:00\"", "\"08:50\"", "phase[1].at"),
        ("\"closing-call\"", "\"opening-call\"", "phase[2].name"),
        ("\"17:35:30\", name = \"closed\"", "\"17:35:30\", name = \"halted\"", "phase: the day"),
        ("\"17:35:30\", name = \"closed\"", "\"+1 02:00\", name = \"halted\"", "phase: the day"),
        ("\"2026-12-24\"", "\"2026-12-25\"", "special[0].date"),
        ("\"14:00\"", "\"08:00\"", "special[0].phase[1].at"),
        ("days", "dayz", "dayz"),
    ];
    for (good, bad, named) in cases {
        let text = WEEK.replacen(good, bad, 1);
        assert_ne!(text, WEEK, "{good}");
        let error = error_of(&text);
        assert!(error.contains(named), "{bad}: {error}");
    }
}

#[test]
fn a_calendar_has_a_zone_or_offsets_and_not_both() {
    for (zone, want) in [
        ("", "timezone: give it, or utc_offset"),
        (
            "timezone = 'Europe/Berlin'\nutc_offset = '+01:00'",
            "utc_offset: give either it or timezone, not both",
        ),
        (
            "timezone = 'Europe/Berlin'\nutc_offset_from = { '2027-03-28' = '+02:00' }",
            "utc_offset_from: the timezone has offsets of its own",
        ),
        ("utc_offset_from = { '2027-03-28' = '+02:00' }", "timezone: give it, or utc_offset"),
        ("timezone = 'europe/berlin'", "the zone is written Europe/Berlin"),
        ("timezone = 'CEST'", "timezone: \"CEST\" is no zone of the time zone database"),
    ] {
        let error = error_of(&every_day(zone, "09:00", "17:30"));
        assert!(error.contains(want), "{zone}: {error}");
    }
    let named = Calendar::parse(&every_day("timezone = 'UTC'", "09:00", "17:30")).unwrap();
    assert_eq!(named.timezone(), Some("UTC"));
    assert_eq!(Calendar::parse(WEEK).unwrap().timezone(), None);
}
