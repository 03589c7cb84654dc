//! The verb.

use engine::{Burst, Ctx, Kind, Stage};
use wire::Fragment;

use crate::StageConfig;
use crate::parse::HasIp;
use crate::punts;

/// Takes fragments off, to be put together, where that is wanted. Stands behind the stage that parses the user's packet; the pipeline that
/// takes over the whole ones begins with the stage behind this one.
#[derive(Default)]
pub struct CatchFragments {
    is_on: bool,
}

impl<K: Kind> Stage<K> for CatchFragments
where
    K::Lane: HasIp,
    K::Config: StageConfig,
{
    const NAME: &'static str = "catch_fragments";

    fn build(config: &K::Config) -> Self {
        Self { is_on: config.reassembles() }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, _cx: &mut Ctx<'_, K>) {
        for i in burst.live() {
            if burst.lane.ip(i).fragment != Fragment::Whole {
                burst.punt(i, punts::REASSEMBLE);
            }
        }
    }
}
