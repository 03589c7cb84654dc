//! The verb.

use engine::{Burst, Ctx, Kind, Punt, Stage};
use wire::Fragment;

use crate::parse::HasIp;

/// Takes fragments off, to be put together, where that is wanted. Stands behind the stage that parses the user's packet; the pipeline that
/// takes over the whole ones begins with the stage behind this one.
pub struct CatchFragments(pub bool);

impl<K: Kind> Stage<K> for CatchFragments
where
    K::Lane: HasIp,
{
    const NAME: &'static str = "catch_fragments";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, _cx: &mut Ctx<'_, K>) {
        if !self.0 {
            return;
        }
        for i in burst.live() {
            if burst.lane.ip(i).fragment != Fragment::Whole {
                burst.punt(i, Punt::Reassemble);
            }
        }
    }
}
