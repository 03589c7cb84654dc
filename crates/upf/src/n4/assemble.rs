//! From a configuration to an endpoint.

use std::net::IpAddr;
use std::time::Duration;

use engine::{Overlap, Steer};
use pfcp::ie::{NodeId, RecoveryTimeStamp, UpFunctionFeatures};
use pfcp::node::{self, NeverAnswers, Role};
use sessions::gbr::Guaranteed;

use super::catalogue::Catalogue;
use super::endpoint::Endpoint;
use super::identifiers::{Pool, Teids};
use super::metering::WallClock;
use super::networks::Networks;
use super::paths::Pace;
use super::pools::AddressPools;
use super::{Limits, N4, Parts, gbr};
use crate::config::{self, Config, parse_prefix};

/// The endpoint that a configuration asks for, if it does. `began` is when the run began whose sessions it goes on with,
/// as a Recovery Time Stamp; none: it begins now.
pub fn endpoint(config: &Config, clock: &WallClock, began: Option<u32>) -> Option<Endpoint> {
    let n4 = config.n4.as_ref()?;
    let node = node_id(n4);
    if n4.allow.is_empty() {
        let text = "n4.allow is not set: any address that reaches N4 may set up an association and establish sessions";
        tracing::warn!(target: "n4", event = "n4_allow_not_set", address = %n4.address, "{text}");
    }
    let parts = Parts {
        node: node.clone(),
        address: n4.address,
        networks: Networks::of(config),
        pools: pools(n4, config),
        limits: limits(n4),
        catalogue: Catalogue::of(config),
        guaranteed: Guaranteed::new(gbr::capacity(config)),
        workers: config.workers.count,
        pace: (config.gtpu.echo_seconds > 0).then_some(Pace {
            interval: config.gtpu.echo_seconds,
            timeout: config.gtpu.echo_timeout_seconds,
            tries: config.gtpu.n3_requests,
        }),
    };
    let started = began.map_or_else(|| RecoveryTimeStamp::from_unix(clock.unix(clock.now)), RecoveryTimeStamp);
    let mut endpoint = Endpoint::new(behaviour(n4), n4.choose_f_teid, N4::new(parts), started);
    endpoint.checkpoint_every(Duration::from_secs(n4.checkpoint_seconds.into()));
    Some(endpoint)
}

fn node_id(n4: &config::N4) -> NodeId {
    match &n4.node_id {
        Some(name) => NodeId::Fqdn(name.as_str().into()),
        None => n4.address.into(),
    }
}

/// Bounds of sessions.
pub(super) fn limits(n4: &config::N4) -> Limits {
    Limits {
        sessions: n4.sessions as usize,
        sessions_per_peer: n4.sessions_per_peer.unwrap_or(n4.sessions),
        rules: n4.rules_per_session as usize,
        ..Limits::default()
    }
}

/// How the node behaves. Its role is filled in by the endpoint.
pub(super) fn behaviour(n4: &config::N4) -> node::Config {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    node::Config {
        heartbeat_interval: (n4.heartbeat_seconds > 0).then(|| seconds(n4.heartbeat_seconds)),
        never_answers: if n4.silence_is_loss { NeverAnswers::Lost } else { NeverAnswers::Ignore },
        keep_lost: seconds(n4.session_retention_seconds),
        message_rate: n4.messages_per_second,
        message_burst: n4.messages_per_second.div_ceil(10).max(100),
        max_associations_per_address: n4.associations_per_address as usize,
        pins: n4.peer.iter().map(config::Peer::pin).collect(),
        allow: n4.allow.iter().filter_map(|text| parse_prefix(text)).collect(),
        ..node::Config::new(node_id(n4), Role::UserPlane(UpFunctionFeatures::NONE))
    }
}

/// The pools of a configuration, nothing given out.
pub(crate) fn pools(n4: &config::N4, config: &Config) -> AddressPools {
    let workers = config.workers.count;
    let prefix = |text: &Option<String>| text.as_deref().and_then(parse_prefix);
    let v4 = |pool: &config::Pool| {
        let Some((IpAddr::V4(first), len)) = prefix(&pool.v4) else { return None };
        let count = 1u64 << (32 - u32::from(len));
        let first = u32::from(first) & (u32::MAX << (32 - u32::from(len)).min(31));
        // A network's first and last address are nobody's.
        let (first, count) = if len < 31 { (first + 1, count - 2) } else { (first, count) };
        Some((config::N4::instance(pool, config), Pool::new(first.into(), count, workers)))
    };
    let v6 = |pool: &config::Pool| {
        let Some((IpAddr::V6(first), len)) = prefix(&pool.v6) else { return None };
        let first = u128::from(first) & (u128::MAX << (128 - u32::from(len)));
        let pool6 = Pool::new(first.into(), 1 << (64 - u32::from(len)), workers);
        Some((config::N4::instance(pool, config), pool6))
    };
    AddressPools::new(n4.pool.iter().filter_map(v4).collect(), n4.pool.iter().filter_map(v6).collect())
}

/// Who owns which identifiers, as the endpoint will choose them: tunnel endpoints and pools in parts by worker.
///
/// # Errors
/// Pools that overlap.
pub fn steer(config: &Config) -> Result<Steer, Overlap> {
    let mut steer = Steer::new();
    let Some(n4) = &config.n4 else { return Ok(steer) };
    let workers = config.workers.count;
    let teids = Teids::new(workers);
    let pools = pools(n4, config);
    let prefix = crate::compile::prefix64;
    for worker in 0..workers {
        let (first, last) = teids.range(worker);
        steer.own_ids(first, last, worker)?;
        for (instance, pool) in pools.v4() {
            let (first, last) = pool.range(worker);
            steer.own_v4(*instance, first.into(), last.into(), worker)?;
        }
        for (instance, pool) in pools.v6() {
            let (first, last) = pool.range(worker);
            steer.own_v6(*instance, prefix(first), prefix(last), worker)?;
        }
    }
    Ok(steer)
}
