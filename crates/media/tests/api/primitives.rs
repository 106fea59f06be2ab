//! The primitives on memory: copies past the cache, instructions that can be forced, device
//! profiles.

use everbyte_media::{BackendChoice, Error, FlushKind, Geometry, Media, OpenOptions, Options, Profile};
use std::time::{Duration, Instant};

/// Every offset in two lines, every length up to three: the requested bytes, and no others.
fn copies_exactly(media: &Media, base: u64) {
    let source: Vec<u8> = (0..200).map(|byte| byte as u8 | 1).collect();
    let (mut expected, mut found) = (vec![0; 512], vec![0; 512]);
    for offset in 0..=128_usize {
        for len in 0..=200 {
            expected.fill(0);
            expected[offset..offset + len].copy_from_slice(&source[..len]);
            let lines = [Media::copy_nt, Media::rewrite].map(|copy| {
                let _section = media.section();
                media.zero(base, 512);
                let before = media.counts().lines;
                copy(media, base + offset as u64, &source[..len]);
                media.read(base, &mut found);
                assert!(found == expected, "{offset} + {len}");
                media.counts().lines - before
            });
            assert_eq!(lines[0], lines[1], "{offset} + {len}");
        }
        media.fence();
    }
}

#[test]
fn copy_nt_is_right_at_every_offset_and_length() {
    for flush in FlushKind::ALL.into_iter().filter(|flush| flush.is_supported()) {
        copies_exactly(&Media::anonymous(4096, &Options { flush: Some(flush), ..Options::default() }).unwrap(), 1024);
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { backend: BackendChoice::File, ..Options::default() };
    let geometry = Geometry { max: 8 << 20, len: 4 << 20, log_at: 16 << 10, log_len: 1 << 20 };
    copies_exactly(&OpenOptions::new(dir.path().join("store")).create(geometry, &options).unwrap(), 2 << 20);
}

/// Each instruction can be forced; one that the CPU lacks is refused by name; flush-on-fail issues
/// none.
#[test]
fn the_flush_instruction_can_be_forced() {
    for flush in FlushKind::ALL {
        let opened = Media::anonymous(1 << 16, &Options { flush: Some(flush), ..Options::default() });
        match opened {
            Ok(media) => {
                assert!(flush.is_supported());
                assert_eq!(media.flush_kind(), flush);
                media.store(4096, 1);
                media.flush(4090, 20);
                media.barrier().unwrap();
                assert_eq!((media.load(4096), media.counts().lines), (1, 2));
            }
            Err(Error::Unsupported { detail, .. }) => {
                assert!(!flush.is_supported() && detail.contains(flush.name()), "{detail}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    let options = Options { flush: Some(FlushKind::Clflush), flush_on_fail: true, ..Options::default() };
    assert_eq!(Media::anonymous(4096, &options).unwrap().flush_kind(), FlushKind::None);
}

/// The best of as many runs as it takes to be good enough, up to a limit: the speed of an
/// undisturbed machine.
fn best(good: Duration, mut run: impl FnMut() -> Duration) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..1000 {
        best = best.min(run());
        if best <= good {
            break;
        }
    }
    best
}

/// No delay is ever shorter than requested, on any run, also on a busy machine.
#[test]
fn device_profiles_never_delay_too_little() {
    for profile in Profile::ALL {
        let media = Media::anonymous(1 << 20, &Options { profile, ..Options::default() }).unwrap();
        for lines in [0_u64, 1, 8, 64, 1024] {
            let latency = if lines > 0 { u64::from(profile.write_ns) } else { 0 } + u64::from(profile.fence_ns);
            let transfer = (lines * 64 * 1000).checked_div(u64::from(profile.bandwidth_mb)).unwrap_or(0);
            for _ in 0..20 {
                let sent = Instant::now();
                media.flush(0, lines * 64);
                let start = Instant::now();
                media.fence();
                let (waited, took) = (start.elapsed().as_nanos() as u64, sent.elapsed().as_nanos() as u64);
                assert!(waited >= latency, "{} {lines} lines: waited {waited} ns of {latency}", profile.name);
                assert!(took >= transfer, "{} {lines} lines: took {took} ns of {transfer}", profile.name);
            }
        }
    }
}

/// Bandwidth is within 4 % of the device's, at best, and two threads share it; lines of one fence
/// overlap their latency.
#[test]
fn device_profiles_have_their_bandwidth_and_latency() {
    const BYTES: u64 = 4 << 20;
    for profile in Profile::ALL.into_iter().filter(|profile| profile.bandwidth_mb > 0 && profile.bandwidth_mb <= 4000) {
        let media = Media::anonymous(BYTES, &Options { profile, ..Options::default() }).unwrap();
        media.zero(0, BYTES);
        let write = |at| {
            media.flush(at, BYTES / 2);
            media.fence();
        };
        let took = best(Duration::from_nanos(BYTES * 1020 / u64::from(profile.bandwidth_mb)), || {
            let start = Instant::now();
            write(0);
            write(BYTES / 2);
            start.elapsed()
        });
        let found = BYTES as f64 / took.as_secs_f64() / 1e6;
        let asked = f64::from(profile.bandwidth_mb);
        assert!((found / asked - 1.0).abs() < 0.04, "{}: {found:.0} MB/s, not {asked}", profile.name);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| write(0));
            write(BYTES / 2);
        });
        assert!(start.elapsed() >= took.mul_f64(0.95), "{}: two threads are faster than one", profile.name);
    }
    for profile in [Profile::PCM_1000, Profile::PCM_2000] {
        let media = Media::anonymous(1 << 16, &Options { profile, ..Options::default() }).unwrap();
        let took = best(Duration::from_nanos(u64::from(profile.write_ns) * 5 / 4), || {
            media.flush(0, 8 * 64);
            let start = Instant::now();
            media.fence();
            start.elapsed()
        });
        let target = Duration::from_nanos(profile.write_ns.into());
        assert!(took < target * 3 / 2, "{}: eight lines of one fence took {took:?}", profile.name);
    }
}
