//! Places on the earth as numbers of 52 bits, nearby ones mostly near each other.
//!
//! Longitude and latitude are halved in turn, 26 times each; the bits of both are interleaved,
//! those of the latitude lowest. So a square is a range of numbers, and a search looks at the
//! square around its centre and at its eight neighbours. Every step is that of Redis: replies are
//! equal in order and in every digit.

/// Halvings of a stored place.
pub(crate) const STEPS: u32 = 26;
/// The largest longitude.
pub(crate) const LONGITUDE_MAX: f64 = 180.0;
/// The largest latitude of a stored place.
pub(crate) const LATITUDE_MAX: f64 = 85.05112878;
/// The radius of the earth in metres.
const EARTH: f64 = 6_372_797.560_856;
/// Half the width of the map in metres.
const MAP: f64 = 20_037_726.37;

/// Longitude and latitude in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub longitude: f64,
    pub latitude: f64,
}

/// A square: the bits of its place after so many halvings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Square {
    pub bits: u64,
    pub steps: u32,
}

/// The least and the greatest longitude and latitude of an area.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    low: Point,
    high: Point,
}

/// The area of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// All within a distance in metres.
    Circle(f64),
    /// Width and height in metres.
    Box(f64, f64),
}

/// The bits of a number, each with a zero above it.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The number of which every second bit is given, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut number = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        number = (number | number >> shift) & mask;
    }
    number as u32
}

impl Point {
    /// The bits of a place, whose latitudes reach up to `latitude_max`.
    pub(crate) fn square(self, steps: u32, latitude_max: f64) -> Square {
        let cells = (1_u64 << steps) as f64;
        let place = |value: f64, max: f64| ((value + max) / (max - -max) * cells) as u32;
        let (latitude, longitude) = (place(self.latitude, latitude_max), place(self.longitude, LONGITUDE_MAX));
        Square { bits: spread(latitude) | spread(longitude) << 1, steps }
    }

    /// The score of a stored place.
    pub(crate) fn score(self) -> f64 {
        self.square(STEPS, LATITUDE_MAX).bits as f64
    }

    /// The place of a score, whatever it is.
    pub(crate) fn of_score(score: f64) -> Point {
        // As C does it: a score below 0 wraps.
        let bits = if score < 9_223_372_036_854_775_808.0 { (score as i64) as u64 } else { score as u64 };
        let area = Square { bits, steps: STEPS }.area();
        let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
        Point {
            longitude: middle(area.low.longitude, area.high.longitude, LONGITUDE_MAX),
            latitude: middle(area.low.latitude, area.high.latitude, LATITUDE_MAX),
        }
    }

    /// The distance to another place in metres.
    pub(crate) fn distance(self, other: Point) -> f64 {
        let half = (radians(other.longitude) - radians(self.longitude)) / 2.0;
        let east = half.sin();
        if east == 0.0 {
            return EARTH * (radians(other.latitude) - radians(self.latitude)).abs();
        }
        let (one, two) = (radians(self.latitude), radians(other.latitude));
        let north = ((two - one) / 2.0).sin();
        let chord = north * north + one.cos() * two.cos() * east * east;
        2.0 * EARTH * chord.sqrt().asin()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

impl Square {
    /// No square: it is passed over.
    const NONE: Square = Square { bits: 0, steps: 0 };

    fn area(self) -> Area {
        let cells = (1_u64 << self.steps) as f64;
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let side = |cell: u32, max: f64, up: u32| -max + f64::from(cell.wrapping_add(up)) / cells * (max - -max);
        let corner =
            |up| Point { longitude: side(longitude, LONGITUDE_MAX, up), latitude: side(latitude, LATITUDE_MAX, up) };
        Area { low: corner(0), high: corner(1) }
    }

    /// The square so many squares to the east and to the north, around the earth.
    fn moved(self, east: i64, north: i64) -> Square {
        let mask = if self.steps >= 32 { u32::MAX } else { (1 << self.steps) - 1 };
        // A place on the last parallel or meridian is beyond the last cell, and stays there.
        let step = |cell: u32, by: i64| if by == 0 { cell } else { (i64::from(cell) + by) as u32 & mask };
        let (latitude, longitude) = (step(gather(self.bits), north), step(gather(self.bits >> 1), east));
        Square { bits: spread(latitude) | spread(longitude) << 1, steps: self.steps }
    }

    /// The scores of the places in it: from the first up to the second.
    pub(crate) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        ((self.bits << shift) as f64, (self.bits.wrapping_add(1) << shift) as f64)
    }
}

impl Shape {
    /// The distance of a place from the centre in metres, if it is within the shape.
    pub(crate) fn holds(self, centre: Point, place: Point) -> Option<f64> {
        if let Shape::Box(width, height) = self {
            let beside = Point { longitude: centre.longitude, latitude: place.latitude };
            let above = Point { longitude: place.longitude, latitude: centre.latitude };
            if place.distance(above) > height / 2.0 || place.distance(beside) > width / 2.0 {
                return None;
            }
        }
        let distance = centre.distance(place);
        match self {
            Shape::Circle(radius) if distance > radius => None,
            _ => Some(distance),
        }
    }

    /// The area that holds the shape.
    fn bounds(self, centre: Point) -> Area {
        let (width, height) = match self {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let north = degrees(height / EARTH);
        let east = |latitude: f64| degrees(width / EARTH / radians(latitude).cos());
        // The side that is nearer to a pole is wider in degrees.
        let east = if centre.latitude < 0.0 { east(centre.latitude - north) } else { east(centre.latitude + north) };
        Area {
            low: Point { longitude: centre.longitude - east, latitude: centre.latitude - north },
            high: Point { longitude: centre.longitude + east, latitude: centre.latitude + north },
        }
    }

    /// Halvings after which nine squares hold the shape, about.
    fn steps(self, latitude: f64) -> u32 {
        let mut radius = match self {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt()
            }
        };
        if radius == 0.0 {
            return STEPS;
        }
        let mut steps = 1;
        while radius < MAP {
            radius *= 2.0;
            steps += 1;
        }
        steps -= 2;
        // Squares are narrow near the poles.
        steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        steps.clamp(1, STEPS as i32) as u32
    }

    /// The squares to look at, in order: the one of the centre, then its neighbours; those that the
    /// shape does not reach are left out.
    pub(crate) fn squares(self, centre: Point) -> Vec<Square> {
        let bounds = self.bounds(centre);
        let mut steps = self.steps(centre.latitude);
        let at = |steps| centre.square(steps, LATITUDE_MAX);
        let square = at(steps);
        let short = square.moved(0, 1).area().high.latitude < bounds.high.latitude
            || square.moved(0, -1).area().low.latitude > bounds.low.latitude
            || square.moved(1, 0).area().high.longitude < bounds.high.longitude
            || square.moved(-1, 0).area().low.longitude > bounds.low.longitude;
        if steps > 1 && short {
            steps -= 1;
        }
        let square = at(steps);
        let area = square.area();
        let useless = |east: i64, north: i64| {
            steps >= 2
                && (north < 0 && area.low.latitude < bounds.low.latitude
                    || north > 0 && area.high.latitude > bounds.high.latitude
                    || east < 0 && area.low.longitude < bounds.low.longitude
                    || east > 0 && area.high.longitude > bounds.high.longitude)
        };
        const AROUND: [(i64, i64); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let all = AROUND.map(|(east, north)| match useless(east, north) {
            true => Square::NONE,
            false => square.moved(east, north),
        });
        // The same square as the one before is looked at once; the first is not compared with.
        let (mut last, mut chosen) = (None, Vec::with_capacity(all.len()));
        for (place, square) in all.into_iter().enumerate() {
            if square != Square::NONE && last != Some(square) {
                chosen.push(square);
                last = (place > 0).then_some(square);
            }
        }
        chosen
    }
}

/// A place as a geohash of eleven letters. The last one is always the first letter of the alphabet,
/// as there are not enough bits for it.
pub(crate) fn geohash(place: Point) -> String {
    const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let bits = place.square(STEPS, 90.0).bits;
    let letter = |at: u32| char::from(LETTERS[(bits >> (2 * STEPS - 5 * (at + 1)) & 0x1f) as usize]);
    (0..10).map(letter).chain(['0']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_and_gathered() {
        for number in [0, 1, 2, 0x5555_5555, 0x1234_5678, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
            assert_eq!(spread(number) & 0xaaaa_aaaa_aaaa_aaaa, 0);
        }
    }

    #[test]
    fn places_have_the_scores_of_redis() {
        let palermo = Point { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(geohash(Point::of_score(palermo.score())), "sqc8b49rny0");
        let catania = Point { longitude: 15.087269, latitude: 37.502669 };
        let between = Point::of_score(palermo.score()).distance(Point::of_score(catania.score()));
        assert_eq!(format!("{between:.4}"), "166274.1516");
    }

    /// Any score, centre and size give squares and places within their bounds.
    #[test]
    fn odd_scores_and_sizes_have_places_and_squares() {
        for score in [-1.0, f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e18, 1e19, 5e-324] {
            let place = Point::of_score(score);
            assert!(place.longitude.abs() <= LONGITUDE_MAX && place.latitude.abs() <= LATITUDE_MAX);
            for shape in
                [Shape::Circle(0.0), Shape::Circle(f64::MAX), Shape::Box(1.0, f64::INFINITY), Shape::Circle(1.0)]
            {
                for square in shape.squares(place) {
                    assert!((1..=STEPS).contains(&square.steps));
                    assert!(square.scores().0 <= square.scores().1);
                }
            }
        }
    }
}
