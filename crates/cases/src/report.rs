//! Settings of a run and its report, both plain data that serializes.

use everbyte_sim::{Explorer, Failure, Profile, Report as Explored};
use serde::{Deserialize, Serialize};

/// Options of an exploration. `None` is the case's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The seed of the samples.
    pub seed: Option<u64>,
    /// Only this image, as a failure named it.
    pub image: Option<String>,
    /// Images per crash point where not all are tried.
    pub images: Option<usize>,
    /// About how many images one profile may cost.
    pub total: Option<u64>,
    /// Names of profiles: `pmem`, `file`, `pmem-lines`, `file-lines`, `eadr`.
    pub profiles: Option<Vec<String>>,
}

impl Settings {
    /// Whether all profile names are known; the unknown one otherwise.
    ///
    /// # Errors
    /// The first name that is no profile.
    pub fn validate(&self) -> Result<(), String> {
        let unknown = self.profiles.iter().flatten().find(|name| profile(name).is_none());
        let known = Profile::ALL.map(|(name, _)| name).join(", ");
        unknown.map_or(Ok(()), |name| Err(format!("no profile is called `{name}`; there are {known}")))
    }

    pub(crate) fn apply(&self, mut explorer: Explorer) -> Explorer {
        if let Some(seed) = self.seed {
            explorer = explorer.seed(seed);
        }
        if let Some(images) = self.images {
            explorer = explorer.images(images);
        }
        if let Some(total) = self.total {
            explorer = explorer.total(total);
        }
        if let Some(names) = &self.profiles {
            explorer = explorer.profiles(&names.iter().filter_map(|name| profile(name)).collect::<Vec<_>>());
        }
        if let Some(image) = &self.image {
            explorer = explorer.replay(image);
        }
        explorer
    }
}

fn profile(name: &str) -> Option<Profile> {
    Profile::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile)
}

/// The work of an exploration and its failures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The case.
    pub case: String,
    /// Its crate.
    #[serde(rename = "room")]
    pub crate_name: String,
    /// Images tried, those of crashes inside recovery included.
    pub images: u64,
    /// One entry per profile explored; empty after a failure.
    pub profiles: Vec<ProfileShare>,
    /// Milliseconds it took; 0 after a failure.
    pub elapsed_ms: u64,
    /// The image that failed, if one did.
    pub failure: Option<FailureReport>,
}

/// The images explored under one profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileShare {
    /// Its name.
    pub profile: String,
    /// Crash points.
    pub points: u64,
    /// Crash points of which every image was tried.
    pub whole_points: u64,
    /// Different images tried.
    pub images: u64,
    /// Images of crashes inside recovery.
    pub recovery_images: u64,
    /// Images the rule permits; may be astronomic.
    pub possible: f64,
    /// The part of these that was tried, 0 to 1.
    pub share: f64,
    /// Words stored by the program.
    pub stores: u64,
    /// Its fences.
    pub fences: u64,
}

/// A failing image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The profile.
    pub profile: String,
    /// The seed.
    pub seed: u64,
    /// The image's id.
    pub image: String,
    /// The message of the check.
    pub message: String,
    /// The point of the power failure and the words lost.
    pub story: String,
    /// The command that replays it.
    pub command: String,
}

impl Report {
    fn empty(case: &str, crate_name: &str) -> Report {
        let (case, crate_name) = (case.into(), crate_name.into());
        Report { case, crate_name, images: 0, profiles: Vec::new(), elapsed_ms: 0, failure: None }
    }

    pub(crate) fn new(case: &str, crate_name: &str, outcome: Result<Explored, Box<Failure>>) -> Report {
        let mut report = Report::empty(case, crate_name);
        match outcome {
            Ok(explored) => {
                report.images = explored.images();
                report.elapsed_ms = explored.elapsed.as_millis() as u64;
                let share = |profile: &everbyte_sim::ProfileReport| ProfileShare {
                    profile: profile.profile.into(),
                    points: profile.points,
                    whole_points: profile.whole_points,
                    images: profile.images,
                    recovery_images: profile.recovery_images,
                    possible: profile.possible,
                    share: profile.share(),
                    stores: profile.stores,
                    fences: profile.fences,
                };
                report.profiles = explored.profiles.iter().map(share).collect();
            }
            Err(failure) => {
                let Failure { profile, seed, image, message, story, command, .. } = *failure;
                report.failure = Some(FailureReport { profile, seed, image, message, story, command });
            }
        }
        report
    }

    /// The report of a program that fails without any crash.
    #[cfg(feature = "museum")]
    pub(crate) fn broken(case: &str, crate_name: &str, message: String) -> Report {
        let failure = FailureReport {
            profile: "none".into(),
            seed: 0,
            image: String::new(),
            message,
            story: "no crash was needed".into(),
            command: format!("everbyte crash {case}"),
        };
        Report { failure: Some(failure), ..Report::empty(case, crate_name) }
    }

    /// Whether no image failed.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(failure) = &self.failure {
            let FailureReport { profile, message, story, command, .. } = failure;
            return write!(f, "{} ({profile}): FAILS: {message}\n{story}\nreplay: {command}", self.case);
        }
        write!(f, "{}: passes, {} images in {} ms", self.case, self.images, self.elapsed_ms)?;
        for ProfileShare { profile, points, whole_points, images, recovery_images, possible, share, .. } in
            &self.profiles
        {
            let percent = share * 100.0;
            write!(f, "\n  {profile}: {images} images at {points} crash points ({whole_points} in full), ")?;
            write!(f, "{percent:.3} % of {possible:.3e}")?;
            write!(f, "; {recovery_images} inside recovery")?;
        }
        Ok(())
    }
}
