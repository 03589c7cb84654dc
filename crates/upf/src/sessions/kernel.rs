//! Sessions that are in the kernel: what they have there, and what they come back with. When they go is
//! [`gateway::fast_path`]'s.

mod inherit; // what sessions counted in the kernel while no process was there

use std::borrow::Cow;
use std::sync::Arc;

pub(super) use gateway::fast_path::InKernel;
use gateway::fast_path::{self, InKernelSessions, Offset};
use port::bpf::monotonic_ns;
use table::records::{Line, LineId};

use super::{Place, Sessions};
use crate::fast::{self, Cells, FastPath, KEY_TEID, NUMBER_BITS, NotEligible, address_key, prefix_key};
use crate::record::{self, Meter, Tally};
pub(super) use inherit::Inherits;

/// A worker's share in the in-kernel path.
pub(super) type Kernel = fast_path::Kernel<FastPath>;

impl InKernelSessions for Sessions {
    type Path = FastPath;

    #[inline]
    fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_deref()
    }

    #[inline]
    fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_deref_mut()
    }

    fn handles_end(&self) -> u32 {
        self.places.len() as u32 // handles are 32 bits
    }

    fn place_in_kernel(&mut self, handle: u32) -> Option<&mut InKernel> {
        Some(&mut self.place_mut(handle)?.kernel)
    }

    /// Whether a session is in the kernel.
    fn is_in_kernel(&self, handle: u32) -> bool {
        self.places.get(handle as usize).copied().flatten().is_some_and(|place| place.kernel.is_there)
    }

    /// Has a session go into the kernel, if it can and stands there as it stood (none: as it does). False: it stands
    /// otherwise.
    fn try_to_enter(&mut self, handle: u32, stood: Option<u32>) -> bool {
        let Some(kernel) = self.kernel.as_ref().filter(|kernel| !kernel.is_closed && kernel.path.is_running()) else {
            return true;
        };
        let Some(place) = self.places.get(handle as usize).copied().flatten().filter(|place| !place.kernel.is_there)
        else {
            return true;
        };
        let Ok((session, cells, number)) = self.for_kernel(kernel, handle, place) else { return true };
        let path = kernel.path.clone();
        if !place.kernel.is_linked {
            path.begin(number);
            if !self.link_kernel(handle, &path, number) {
                return true;
            }
            self.place_mut(handle).into_iter().for_each(|place| place.kernel.is_linked = true);
        }
        if !path.enter(number, (&session.four, &session.six), stood.unwrap_or_else(|| path.stands(number))) {
            return false;
        }
        let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) else { return true };
        close(lines, &cells);
        if let Some(place) = self.place_mut(handle) {
            place.kernel.enter();
        }
        true
    }

    /// Takes a session out of the kernel, with what it has counted; nothing, if it is not there.
    fn leave_kernel(&mut self, handle: u32) {
        let Some(place) = self.places.get(handle as usize).copied().flatten().filter(|place| place.kernel.is_there)
        else {
            return;
        };
        let Some((path, offset, number)) = self
            .kernel
            .as_ref()
            .and_then(|kernel| Some((kernel.path.clone(), kernel.offset, kernel.path.number(kernel.worker, handle)?)))
        else {
            return;
        };
        let state = path.leave(number);
        if let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) {
            merge(lines, state, offset);
        }
        if let Some(place) = self.place_mut(handle) {
            place.kernel.leave();
        }
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.inherits.is_some()
    }

    fn see_to_more(&mut self) {
        self.inherit();
    }
}

impl Sessions {
    /// Has sessions go into the kernel from now on, those that are there already too. `now` is the worker's time.
    pub fn set_fast_path(&mut self, path: Arc<FastPath>, worker: u16, now: u64) {
        self.kernel = Some(Box::new(Kernel::new(path, worker, now)));
        self.open_kernel(true);
        self.begin_to_inherit();
    }

    fn place_mut(&mut self, handle: u32) -> Option<&mut Place> {
        self.places.get_mut(handle as usize)?.as_mut()
    }

    /// Why a session is not in the kernel; none: it is there, or will be again soon, or there is no in-kernel path.
    pub fn why_not_in_kernel(&self, handle: u32) -> Option<NotEligible> {
        let (kernel, place) = (self.kernel.as_ref()?, self.places.get(handle as usize).copied().flatten()?);
        if place.kernel.is_there {
            return None;
        }
        let lacks_flows = || kernel.lacks_flows(handle).then_some(NotEligible::Flows);
        self.for_kernel(kernel, handle, place).err().or_else(lacks_flows)
    }

    /// Whether a session is in the kernel, and why not, in words; none: there is no in-kernel path.
    pub fn kernel_in_words(&self, handle: u32) -> Option<String> {
        self.kernel.as_ref()?;
        Some(match self.why_not_in_kernel(handle) {
            None if self.is_in_kernel(handle) => "in the kernel".to_owned(),
            None => "by its worker for a while: some of its packets were not for the kernel".to_owned(),
            Some(why) => format!("by its worker: {why}"),
        })
    }

    /// What the program would have of a session, and its number there.
    fn for_kernel(
        &self,
        kernel: &Kernel,
        handle: u32,
        place: Place,
    ) -> Result<(fast::Compiled, Cells, u32), NotEligible> {
        let number = kernel.path.number(kernel.worker, handle).ok_or(NotEligible::NoRoom)?;
        let keys = self.keys.get(handle as usize).ok_or(NotEligible::NoRoom)?;
        if !keys.routes.is_empty() {
            return Err(NotEligible::Routes);
        }
        let lines = self.lines.get(place.line, place.lines.into()).ok_or(NotEligible::NoRoom)?;
        let filters = |uplink: bool| {
            let window = self.lines.window(place.line);
            let list = window.map(|window| record::head_of(window, uplink).filters).unwrap_or_default();
            self.filters.get(list).iter().map(|quad| quad.filters).collect::<Vec<_>>()
        };
        let (up, down) = (filters(true), filters(false));
        let with = (&*kernel.path, kernel.offset);
        let (session, cells) = fast::compile(lines, [&up, &down], keys.teids.as_slice(), kernel.worker, with)?;
        Ok((session, cells, number))
    }

    /// Has the program's index lead to a session. False: there is no room.
    fn link_kernel(&self, handle: u32, path: &FastPath, number: u32) -> bool {
        let linked = self.kernel_keys(handle).all(|key| path.link(key, number));
        if !linked {
            self.kernel_keys(handle).for_each(|key| path.unlink(key, number));
        }
        linked
    }

    /// What leads to a session in the program's index.
    fn kernel_keys(&self, handle: u32) -> impl Iterator<Item = u64> + '_ {
        let keys = self.keys.get(handle as usize);
        let teids = keys.map_or(&[][..], |keys| keys.teids.as_slice());
        let teids = teids.iter().map(|teid| KEY_TEID | u64::from(*teid) << NUMBER_BITS);
        let address = keys.and_then(|keys| keys.ue4);
        let prefix = keys.and_then(|keys| keys.ue6).map(|(instance, prefix)| prefix_key(instance, prefix, 64));
        let address = address.map(|(instance, to)| address_key(instance, to));
        teids.chain(address).chain(prefix)
    }

    /// Whether a session is in the kernel, and the program has left no packet of it to the worker.
    pub(super) fn has_left_nothing(&self, handle: u32) -> bool {
        let number = |kernel: &Kernel| kernel.path.number(kernel.worker, handle);
        let is_taken = |kernel: &Kernel| number(kernel).is_some_and(|number| kernel.path.is_taken(number));
        self.is_in_kernel(handle) && self.kernel.as_deref().is_some_and(is_taken)
    }

    /// Whether the program's index leads to a session, so that what it leaves of it is counted.
    pub(super) fn is_linked(&self, handle: u32) -> bool {
        self.places.get(handle as usize).copied().flatten().is_some_and(|place| place.kernel.is_linked)
    }

    /// Has nothing in the program's index lead to a session, which is not in the kernel.
    pub(super) fn unlink_kernel(&mut self, at: usize) {
        let handle = at as u32; // a handle
        let linked = self.places.get(at).copied().flatten().is_some_and(|place| place.kernel.is_linked);
        let Some(kernel) = self.kernel.as_ref().filter(|_| linked) else { return };
        if let Some(number) = kernel.path.number(kernel.worker, handle) {
            self.kernel_keys(handle).for_each(|key| kernel.path.unlink(key, number));
        }
        if let Some(place) = self.place_mut(handle) {
            place.kernel.is_linked = false;
        }
    }

    /// A packet of a session is the worker's: the session is too from now on. False: it was already.
    #[cold]
    pub fn take_back(&mut self, id: LineId) -> bool {
        let Some(handle) = self.head(id).map(|head| head.handle).filter(|handle| self.is_in_kernel(*handle)) else {
            return false;
        };
        self.leave_and_wait(handle);
        true
    }

    /// A session's lines, with what the program has counted if it is in the kernel.
    pub(super) fn with_kernels<'a>(&self, handle: u32, place: Place, lines: &'a [Line]) -> Cow<'a, [Line]> {
        let kernel = self.kernel.as_ref().filter(|_| place.kernel.is_there);
        let Some((kernel, number)) = kernel.and_then(|k| Some((k, k.path.number(k.worker, handle)?))) else {
            return Cow::Borrowed(lines);
        };
        let mut lines = lines.to_vec();
        merge(&mut lines, kernel.path.state(number), kernel.offset);
        Cow::Owned(lines)
    }
}

fn cell_mut<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::KnownLayout + zerocopy::Immutable>(
    lines: &mut [Line],
    at: u8,
) -> Option<&mut T> {
    record::cell_mut(lines.get_mut(usize::from(at) / record::CELLS).filter(|_| at != 0)?, at)
}

/// The record's buckets let nothing pass, and its counts begin anew and call for a look at once.
fn close(lines: &mut [Line], cells: &Cells) {
    for at in cells.meters {
        if let Some(meter) = cell_mut::<Meter>(lines, at) {
            meter.state = Meter::CLOSED.state;
            meter.state.last_ns = u64::MAX;
        }
    }
    for at in cells.tallies {
        if let Some(tally) = cell_mut::<Tally>(lines, at) {
            *tally = Tally { trip: 0, ..Tally::default() };
        }
    }
}

/// The record's buckets and counts are what the program's are, and what has come meanwhile.
fn merge(lines: &mut [Line], (meters, tallies): ([fast::Meter; 4], [fast::Tally; 4]), offset: Offset) {
    let Ok(cells) = Cells::of(lines) else { return };
    let now = monotonic_ns().saturating_add_signed(-offset);
    for (at, from) in cells.meters.into_iter().zip(&meters) {
        if let Some(meter) = cell_mut::<Meter>(lines, at) {
            fast::meter_from_kernel(meter, from, now, offset);
        }
    }
    for (at, from) in cells.tallies.into_iter().zip(&tallies) {
        if let Some(tally) = cell_mut::<Tally>(lines, at) {
            fast::tally_from_kernel(tally, from, offset);
        }
    }
}
