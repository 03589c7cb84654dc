//! How many requests about sessions are under way: those that workers or the disk have not answered yet.
//!
//! An answer waits for all that was handed to a worker and to the disk before it. So what one control plane has under way is
//! bounded, the more of them ask at the same time the tighter, and what it sends beyond that waits in its own queue.

use std::collections::HashMap;

use pfcp::message::Message;

use super::super::intake::Class;

/// Requests under way in all: a commit of so many takes a few milliseconds.
const IN_ALL: usize = 512;
/// What a control plane may have under way however many there are.
const AT_LEAST: usize = 4;

/// Requests under way by the queue they came from.
#[derive(Debug, Default)]
pub(super) struct Window {
    by_queue: HashMap<Class, usize>,
}

/// Whether sessions answer a message: others are not carried out.
pub(super) fn is_answered(message: &Message) -> bool {
    matches!(
        message,
        Message::SessionEstablishmentRequest(_)
            | Message::SessionModificationRequest(_)
            | Message::SessionDeletionRequest(_)
    )
}

impl Window {
    /// A request is handed to its sessions.
    pub fn asked(&mut self, queue: Class) {
        *self.by_queue.entry(queue).or_default() += 1;
    }

    /// A request is answered.
    pub fn answered(&mut self, queue: Class) {
        if let Some(asked) = self.by_queue.get_mut(&queue) {
            *asked -= 1;
            if *asked == 0 {
                self.by_queue.remove(&queue);
            }
        }
    }

    /// Whether one more from a queue may be under way. Half of all is left to those who ask next.
    pub fn has_room(&self, queue: Class) -> bool {
        let mine = self.by_queue.get(&queue).copied().unwrap_or(0);
        let others = self.by_queue.len() - usize::from(mine > 0);
        mine < (IN_ALL / (others + 2)).max(AT_LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_gets_it_back() {
        let mut window = Window::default();
        let mut fill = |queue: Class| {
            let mut count = 0;
            while window.has_room(queue) {
                window.asked(queue);
                count += 1;
            }
            count
        };
        assert_eq!((fill(Some(1)), fill(None), fill(Some(3)), fill(Some(1))), (256, 170, 128, 0));
        (0..256).for_each(|_| window.answered(Some(1)));
        (0..170).for_each(|_| window.answered(None));
        (0..128).for_each(|_| window.answered(Some(3)));
        assert!(window.by_queue.is_empty());
        (0..1000).for_each(|peer| window.asked(Some(peer)));
        assert!(window.has_room(Some(7)) && window.has_room(None), "each has some");
    }
}
