//! A chart with lines over named points, as SVG text. The upward axis is logarithmic where values
//! differ by much.

use std::fmt::Write;

/// One line.
pub(super) struct Series {
    pub name: String,
    /// Index of the point, value.
    pub values: Vec<(usize, f64)>,
}

/// The kind of drawing.
pub(super) struct Chart {
    pub title: String,
    pub across: String,
    pub up: String,
    pub points: Vec<String>,
    pub lines: Vec<Series>,
    pub foot: String,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 340.0;
/// Told apart by those who do not see all colours, too.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555"];
/// Values that differ by more are drawn on a logarithmic axis.
const LINEAR_MAX: f64 = 30.0;

/// The upward axis: where values lie, and the marks beside it.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    marks: Vec<f64>,
}

impl Axis {
    fn over(values: &[f64]) -> Axis {
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.iter().copied().fold(most, f64::min);
        if least > 0.0 && most / least > LINEAR_MAX {
            let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
            let marks: Vec<f64> = (first..=last).map(|power| 10f64.powi(power)).collect();
            return Axis { low: marks[0], high: marks[marks.len() - 1], logarithmic: true, marks };
        }
        let rough = most / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let count = (most / step).ceil() as u32;
        let marks: Vec<f64> = (0..=count).map(|mark| f64::from(mark) * step).collect();
        Axis { low: 0.0, high: marks[marks.len() - 1], logarithmic: false, marks }
    }

    fn y(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.log10() } else { value };
        BOTTOM - (BOTTOM - TOP) * (place(value) - place(self.low)) / (place(self.high) - place(self.low))
    }
}

/// A text whose anchor is `start`, `middle` or `end`.
fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, r#"<text x="{x:.0}" y="{y:.0}" text-anchor="{anchor}">{words}</text>"#);
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        let values: Vec<f64> = self.lines.iter().flat_map(|line| line.values.iter().map(|(_, value)| *value)).collect();
        let axis = Axis::over(&values);
        let x = |index: usize| LEFT + (RIGHT - LEFT) * (index as f64 + 0.5) / self.points.len() as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" \
             fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
        );
        text(&mut svg, LEFT, 24.0, "start", &self.title);
        for &mark in &axis.marks {
            let y = axis.y(mark);
            let _ = writeln!(svg, r##"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke="#ddd"/>"##);
            text(&mut svg, LEFT - 8.0, y + 4.0, "end", &mark.to_string());
        }
        text(&mut svg, 8.0, TOP - 10.0, "start", &self.up);
        for (index, point) in self.points.iter().enumerate() {
            text(&mut svg, x(index), BOTTOM + 18.0, "middle", point);
        }
        text(&mut svg, (LEFT + RIGHT) / 2.0, BOTTOM + 38.0, "middle", &self.across);
        for (number, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let places: Vec<(f64, f64)> = line.values.iter().map(|&(index, value)| (x(index), axis.y(value))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
                path.join(" ")
            );
            for (x, y) in places {
                let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#);
            }
            let y = TOP + 20.0 * number as f64;
            let _ = writeln!(
                svg,
                r#"<rect x="{}" y="{}" width="12" height="12" fill="{colour}"/>"#,
                RIGHT + 16.0,
                y - 10.0
            );
            text(&mut svg, RIGHT + 34.0, y, "start", &line.name);
        }
        text(&mut svg, LEFT, HEIGHT - 12.0, "start", &self.foot);
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_all_values_between_its_marks() {
        let linear = Axis::over(&[120.0, 470.0, 333.0]);
        assert_eq!(linear.marks, [0.0, 200.0, 400.0, 600.0]);
        assert_eq!((linear.y(0.0), linear.y(600.0)), (BOTTOM, TOP));
        let wide = Axis::over(&[2.0, 900_000.0]);
        assert_eq!(wide.marks, [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!((wide.y(1.0), wide.y(1e3), wide.y(1e6)), (BOTTOM, (TOP + BOTTOM) / 2.0, TOP));
    }
}
