//! Stopping a build on request.

use crate::plan::planner::{FILE, Planner};
use crate::plan::when::{Gate, is_about_termination};
use crate::plan::{Action, CancelReason, Finished, WaitingOn};
use crate::state::{BuildStatus, StepState, StepStatus};

impl Planner<'_> {
    /// The build is being stopped: cancel what runs, settle what waits, and let steps through whose
    /// `when` asks for exactly this.
    pub(super) fn terminate(&mut self) -> Option<Finished> {
        let forced = self.state.terminate_forced;
        let active: Vec<(String, StepState)> = self
            .state
            .steps
            .iter()
            .filter(|(_, observed)| observed.status.is_active())
            .map(|(id, observed)| (id.clone(), observed.clone()))
            .collect();
        let mut stopping = false;
        let mut busy = false;
        for (id, observed) in active {
            let step = self.pipeline.step_by_id(&id);
            let spared = !forced && is_about_termination(step.and_then(|step| step.when.as_ref()));
            match observed.status {
                StepStatus::Running if spared => {
                    busy = true;
                    self.running(&id, &observed);
                }
                StepStatus::Running => {
                    stopping = true;
                    self.emit(Action::Cancel { step: id.clone(), reason: CancelReason::BuildTerminated });
                    self.wait(&id, WaitingOn::Stopping, observed.started_at);
                }
                StepStatus::PendingApproval => self.settle_terminated(&id),
                _ => {
                    stopping = true;
                    self.wait(&id, WaitingOn::Stopping, observed.started_at);
                }
            }
        }
        let pipeline = self.pipeline;
        for step in pipeline.leaves() {
            let observed = self.state.step(&step.name);
            if observed.status != StepStatus::Pending {
                continue;
            }
            let last_wish = !forced && observed.attempt == 0 && is_about_termination(step.when.as_ref());
            match self.gate(step, "terminated") {
                Gate::Open if last_wish && !stopping => {
                    busy |= !self.begin(step, FILE, &step.name, &observed)
                }
                Gate::Closed { reason, forever: false, .. } if last_wish && (stopping || busy) => {
                    self.wait(&step.name, WaitingOn::Condition { text: reason }, None);
                }
                Gate::Open if last_wish => {
                    let text = "the running steps have stopped".to_owned();
                    self.wait(&step.name, WaitingOn::Condition { text }, None);
                }
                _ => self.settle_terminated(&step.name),
            }
        }
        (!stopping && !busy).then(|| Finished {
            status: BuildStatus::Terminated,
            reason: "the build was terminated by request".to_owned(),
        })
    }

    fn settle_terminated(&mut self, id: &str) {
        let reason = "the build was terminated".to_owned();
        self.emit(Action::Settle { step: id.to_owned(), status: StepStatus::Terminated, reason });
    }
}
