//! The thread of `everbyte top` that talks to the server: one sample for each question. It connects
//! anew after a failure.

use super::client::Client;
use super::sample::Sample;
use crate::args::TopArgs;
use crate::failure::Failure;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The longest wait before the server is asked again.
const RETRY_MAX: Duration = Duration::from_secs(16);

/// See the head of this file.
pub(super) struct Source {
    ask: Sender<()>,
    answers: Receiver<Result<Sample, Failure>>,
    /// The wait after the next failure.
    wait: Duration,
}

impl Source {
    /// Starts the thread, which begins with a client that is connected. It ends by itself once its
    /// questions do, and nothing waits for it.
    pub(super) fn start(args: TopArgs, client: Client) -> Result<Source, Failure> {
        let ((ask, asked), (tell, answers)) = (channel::<()>(), channel());
        let mut client = Some(client);
        let run = move || {
            for () in asked {
                let connected = client.take().map_or_else(|| Client::connect(&args), Ok);
                let sample = connected.and_then(|mut connected| {
                    let sample = Sample::take(&mut connected)?;
                    client = Some(connected);
                    Ok(sample)
                });
                if tell.send(sample).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("everbyte-top".into()).spawn(run);
        started.map_err(|error| Failure::System(format!("cannot start a thread: {error}")))?;
        Ok(Source { ask, answers, wait: Duration::from_secs(1) })
    }

    /// Asks for a sample.
    pub(super) fn ask(&mut self) {
        let _ = self.ask.send(()); // a thread that has panicked shows below
    }

    /// The sample, or its failure, once it is there.
    pub(super) fn answer(&mut self) -> Option<Result<Sample, Failure>> {
        use std::sync::mpsc::TryRecvError;
        match self.answers.try_recv() {
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Failure::No("the thread of the client has ended".into()))),
            Ok(answer) => {
                if answer.is_ok() {
                    self.wait = Duration::from_secs(1);
                }
                Some(answer)
            }
        }
    }

    /// The wait after a failure, twice as long each time.
    pub(super) fn retry_after(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (2 * wait).min(RETRY_MAX);
        wait
    }
}
