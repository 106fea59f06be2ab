//! Cases of bare media: the idioms of every crate.

use crate::{Case, TOTAL};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Report};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "media-publish",
        crate_name: "media",
        about: "a record of three lines, fenced, then the word that publishes it: never a torn record, never a lost one",
        total: TOTAL,
        program: publish,
    },
    Case {
        name: "media-two-copies",
        crate_name: "media",
        about: "a record kept twice and written in turn: the newer whole copy is at least the acknowledged one",
        total: TOTAL,
        program: two_copies,
    },
];

const RECORD: u64 = 0x1038; // ragged: not at a line's start
const LEN: u64 = 150;

fn publish(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &Image::zeroed(8192),
        |media, oracle| {
            for round in 1..4_u64 {
                let place = RECORD + (round % 2) * 512;
                oracle.step(format!("record {round}"), || {
                    media.write(place, &[round as u8; LEN as usize]);
                    media.flush(place, LEN);
                    media.fence(); // no pointer without its record
                    media.store(64, place << 8 | round);
                    media.flush(64, 8);
                    media.barrier().expect("sim barriers do not fail");
                });
            }
        },
        |media, seen| {
            let word = media.load(64);
            let (place, round) = (word >> 8, word & 255);
            if (round as usize) < seen.acked_count() {
                return Err(format!("record {round} is published, {seen:?}"));
            }
            match round == 0 || media.read_vec(place, LEN as usize) == [round as u8; LEN as usize] {
                true => Ok(()),
                false => Err(format!("record {round} is published and torn")),
            }
        },
    )
}

/// A copy: 30 words of payload, a sequence number, and a sum over both.
fn copy_at(sequence: u64) -> u64 {
    4096 + (sequence % 2) * 512
}

fn sum(media: &Media, at: u64) -> u64 {
    (0..31).map(|word| media.load(at + word * 8)).fold(7, |sum, word| sum.rotate_left(9) ^ word.wrapping_mul(0x9e37))
}

fn two_copies(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &Image::zeroed(8192),
        |media, oracle| {
            for sequence in 1..4 {
                let at = copy_at(sequence);
                oracle.step(format!("copy {sequence}"), || {
                    for word in 0..30 {
                        media.store(at + word * 8, sequence * 1000 + word);
                    }
                    media.store(at + 240, sequence);
                    media.store(at + 248, sum(&media, at));
                    media.flush(at, 256);
                    media.barrier().expect("sim barriers do not fail");
                });
            }
        },
        |media, seen| {
            let whole = [0, 1].map(copy_at).into_iter().filter(|&at| media.load(at + 248) == sum(&media, at));
            let newest = whole.map(|at| media.load(at + 240)).max().unwrap_or(0);
            let torn = newest > 0 && (0..30).any(|word| media.load(copy_at(newest) + word * 8) != newest * 1000 + word);
            match (torn, newest as usize >= seen.acked_count()) {
                (true, _) => Err(format!("copy {newest} is torn and its sum fits")),
                (_, false) => Err(format!("the newest whole copy is {newest}, {seen:?}")),
                _ => Ok(()),
            }
        },
    )
}
