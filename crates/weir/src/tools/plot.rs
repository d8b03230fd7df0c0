//! A picture of a record's rates, written as SVG: each second's events, and the rate of its busiest
//! millisecond above it. The scale is logarithmic: bursts are tens to thousands of times the mean.

use std::fmt::Write as _;

use super::rates::{Rates, SecondCount};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
/// No more points than the picture has columns: several seconds share one, the busiest counts.
const POINTS_MAX: u64 = 840;

/// The picture; `title` stands above it, `unit` is what is counted.
#[must_use]
pub fn svg(rates: &Rates, title: &str, unit: &str) -> String {
    let points = points(rates);
    let top = points.iter().map(|point| point.1.peak_ms * 1_000).max().unwrap_or(1).max(10);
    let decades = (top as f64).log10().ceil().max(1.0);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"14\">{}</text>",
        escaped(title)
    );
    put_axes(&mut out, decades, rates, unit);
    let steps = points.last().map_or(1, |point| point.0).max(1) as f64;
    let place = |step: u64, value: u64| {
        let x = MARGIN + step as f64 / steps * (WIDTH - 2.0 * MARGIN);
        (x, height(value, decades))
    };
    let peak: fn(&SecondCount) -> u64 = |second| second.peak_ms * 1_000;
    for (colour, value) in [("#c33", peak), ("#236", |second| second.count)] {
        out.push_str("<polyline fill=\"none\" stroke=\"");
        out.push_str(colour);
        out.push_str("\" points=\"");
        for (step, second) in &points {
            let (x, y) = place(*step, value(second));
            let _ = write!(out, "{x:.1},{y:.1} ");
        }
        out.push_str("\"/>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// The seconds as columns of the picture, those without an event at zero.
fn points(rates: &Rates) -> Vec<(u64, SecondCount)> {
    let seconds = rates.seconds();
    let (Some(first), Some(last)) = (seconds.keys().next(), seconds.keys().next_back()) else {
        return Vec::new();
    };
    let share = ((last - first) / POINTS_MAX).saturating_add(1);
    let mut points = vec![SecondCount::default(); ((last - first) / share) as usize + 1];
    for (second, counts) in seconds {
        let point = &mut points[((second - first) / share) as usize];
        point.count = point.count.max(counts.count);
        point.peak_ms = point.peak_ms.max(counts.peak_ms);
    }
    (0..).zip(points).collect()
}

fn height(value: u64, decades: f64) -> f64 {
    let share = (value.max(1) as f64).log10() / decades;
    HEIGHT - MARGIN - share.min(1.0) * (HEIGHT - 2.0 * MARGIN)
}

fn put_axes(out: &mut String, decades: f64, rates: &Rates, unit: &str) {
    for decade in 0..=decades as u32 {
        let value = 10_u64.pow(decade.min(19));
        let y = height(value, decades);
        let _ = writeln!(
            out,
            "<line x1=\"{MARGIN}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            y + 4.0,
        );
    }
    let seconds = rates.span_ns() as f64 / 1e9;
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{0}\">0 s</text>\
         <text x=\"{1}\" y=\"{0}\" text-anchor=\"end\">{seconds:.0} s</text>\
         <text x=\"{1}\" y=\"36\" text-anchor=\"end\" fill=\"#236\">{2} in each second</text>\
         <text x=\"{1}\" y=\"52\" text-anchor=\"end\" fill=\"#c33\">busiest ms x 1000</text>",
        HEIGHT - MARGIN + 20.0,
        WIDTH - MARGIN,
        escaped(unit),
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use weir_types::Nanos;

    use super::*;

    fn coordinates(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let lines = svg.lines().filter_map(|line| line.split("points=\"").nth(1));
        let pair = |pair: &str| {
            let (x, y) = pair.split_once(',').expect("a pair");
            (x.parse().expect("a number"), y.parse().expect("a number"))
        };
        lines
            .map(|line| line.trim_end_matches("\"/>").split_whitespace().map(pair).collect())
            .collect()
    }

    #[test]
    fn each_second_has_its_place_and_busier_ones_stand_higher() {
        let mut rates = Rates::default();
        for (second, count) in [(100, 10), (101, 1_000), (103, 10)] {
            rates.add(Nanos(second * 1_000_000_000), count);
        }
        let svg = svg(&rates, "a < b", "messages");
        assert!(svg.contains("a &lt; b") && svg.contains("messages in each second"));
        let [peaks, counts] = &coordinates(&svg)[..] else { panic!("two lines") };
        assert_eq!((peaks.len(), counts.len()), (4, 4));
        assert!(counts[1].1 < counts[0].1 && counts[0].1 < counts[2].1, "{counts:?}");
        assert!(peaks[0].1 < counts[0].1, "a millisecond's rate is above its second's");
        for (x, y) in peaks.iter().chain(counts) {
            assert!((0.0..=WIDTH).contains(x) && (0.0..=HEIGHT).contains(y), "{x},{y}");
        }
    }

    #[test]
    fn a_record_of_any_length_or_none_has_a_picture_of_bounded_size() {
        let mut rates = Rates::default();
        assert_eq!(coordinates(&svg(&rates, "", ""))[0].len(), 0);
        rates.add(Nanos(0), 1);
        rates.add(Nanos(u64::MAX), u64::MAX / 10_000);
        assert!(coordinates(&svg(&rates, "", ""))[0].len() <= POINTS_MAX as usize + 2);
    }
}
