//! Where one position stands in its script: which step may fire next, and when the script is over.
//!
//! The rules are those of [`Plan`](crate::Plan). Everything that follows a script has a `Follower`:
//! the executor (one for each chunk in a phase), closed forms and predictions
//! (`lowering::loopback`), and the checker (`prove`). Not here: which messages have come before
//! their receive was posted (each user keeps them in its own way), and time.

use crate::Step;

/// Counts of what one position has done in a phase.
///
/// A user calls [`fire`](Follower::fire) until it returns `None`, at the beginning and again after
/// each [`make_usable`](Follower::make_usable).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Follower {
    fired: u32,
    posted: u32,
    received: u32,
    usable: u32,
}

/// A step that has just fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Index of the step in the script.
    pub index: u32,
    /// The step. The user carries out its send.
    pub step: Step,
    /// The receive it has posted. Its message may be there already.
    pub posts: Option<u32>,
}

impl Follower {
    /// The next step, if its turn has come.
    #[inline]
    pub fn due<'s>(&self, steps: &'s [Step]) -> Option<&'s Step> {
        let ready = |s: &&Step| s.after_usable <= self.usable && s.after_received <= self.received;
        steps.get(self.fired as usize).filter(ready)
    }

    /// Fires the next step, if its turn has come.
    #[inline]
    pub fn fire(&mut self, steps: &[Step]) -> Option<Fired> {
        let step = *self.due(steps)?;
        let (index, slot) = (self.fired, self.posted);
        self.fired += 1;
        self.posted += u32::from(step.from.is_some());
        Some(Fired { index, step, posts: step.from.map(|_| slot) })
    }

    /// Whether receive `slot` is posted. A message that comes before that is *early*: it is
    /// received when its receive is posted.
    #[inline]
    pub fn has_posted(&self, slot: u32) -> bool {
        slot < self.posted
    }

    /// A posted receive has met its message. Returns the index of this reception in order of
    /// arrival, which is also the index of its charge.
    #[inline]
    pub fn receive(&mut self) -> u32 {
        self.received += 1;
        self.received - 1
    }

    /// A reception has become usable.
    #[inline]
    pub fn make_usable(&mut self) {
        self.usable += 1;
    }

    /// Whether all `steps` have fired and all `receives` receptions are usable.
    #[inline]
    pub fn is_over(&self, steps: usize, receives: u32) -> bool {
        self.fired as usize == steps && self.usable == receives
    }

    /// Steps that have fired.
    pub fn fired(&self) -> u32 {
        self.fired
    }

    /// Receptions that are usable.
    pub fn usable(&self) -> u32 {
        self.usable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::To;

    fn send(after_usable: u32, after_received: u32) -> Step {
        Step { after_received, ..Step::send(To::Shift(1), 8, 0, after_usable) }
    }

    fn fired(follower: &mut Follower, steps: &[Step]) -> Vec<u32> {
        std::iter::from_fn(|| follower.fire(steps).map(|fired| fired.index)).collect()
    }

    #[test]
    fn a_step_fires_when_enough_is_usable_and_enough_is_received() {
        let steps = [send(0, 0), send(1, 0), send(1, 2)];
        let mut follower = Follower::default();
        assert_eq!(fired(&mut follower, &steps), [0], "nothing is usable for the second step");
        assert_eq!(follower.receive(), 0);
        assert_eq!(fired(&mut follower, &steps), [0; 0], "received is not yet usable");
        follower.make_usable();
        assert_eq!(fired(&mut follower, &steps), [1], "the third step needs two receptions");
        assert_eq!(follower.receive(), 1);
        assert_eq!(fired(&mut follower, &steps), [2], "they need not be usable");
    }

    #[test]
    fn steps_fire_in_order() {
        let steps = [send(2, 0), send(0, 0)];
        let mut follower = Follower::default();
        assert_eq!(fired(&mut follower, &steps), [0; 0], "the second step waits behind the first");
        follower.make_usable();
        follower.make_usable();
        assert_eq!(fired(&mut follower, &steps), [0, 1]);
    }

    #[test]
    fn a_firing_step_posts_the_next_receive() {
        let steps = [Step::receive(To::Shift(1), 0), send(0, 0), Step::receive(To::Shift(2), 0)];
        let mut follower = Follower::default();
        assert!(!follower.has_posted(0));
        let posts = std::iter::from_fn(|| follower.fire(&steps).map(|fired| fired.posts));
        assert_eq!(posts.collect::<Vec<_>>(), [Some(0), None, Some(1)]);
        assert!(follower.has_posted(1) && !follower.has_posted(2));
    }

    #[test]
    fn a_script_is_over_when_all_has_fired_and_all_is_usable() {
        let steps = [send(0, 0).and_receive(To::Shift(3))];
        let mut follower = Follower::default();
        follower.receive();
        follower.make_usable();
        assert!(!follower.is_over(1, 1), "its step has not fired");
        follower.fire(&steps);
        assert!(follower.is_over(1, 1));
        assert!(!follower.is_over(1, 2), "a reception is missing");
    }
}
