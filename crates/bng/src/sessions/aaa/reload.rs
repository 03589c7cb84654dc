//! Other servers, secrets and intervals while sessions are accounted.

use std::cmp::Reverse;
use std::net::IpAddr;

use access::Time;
use radius::Secret;
use radius::client::Server;

use super::Aaa;
use crate::config::{ConfigError, RadiusSection, RadiusServer, wrong};

fn secret(server: &RadiusServer) -> Secret {
    Secret(server.secret.clone().into_bytes())
}

/// Servers of authentication and of accounting, the preferred one first.
pub(super) fn servers(config: &RadiusSection) -> [Vec<Server>; 2] {
    let ports: [fn(&RadiusServer) -> u16; 2] = [|server| server.authentication_port, |server| server.accounting_port];
    ports.map(|port| {
        let usable = config.server.iter().filter(|server| port(server) != 0);
        usable.map(|server| Server { address: (server.address, port(server)).into(), secret: secret(server) }).collect()
    })
}

/// Who may send CoA- and Disconnect-Requests.
pub(super) fn clients(config: &RadiusSection) -> Vec<(IpAddr, Secret)> {
    config.server.iter().map(|server| (server.address, secret(server))).collect()
}

/// Whether a server takes accounting reports.
pub(super) fn takes_reports(config: &RadiusSection) -> bool {
    config.server.iter().any(|server| server.accounting_port != 0)
}

impl Aaa {
    /// Whether it can go by a configuration from now on: its sockets stay.
    ///
    /// # Errors
    /// The server that cannot be reached by them.
    pub fn check(&self, section: &RadiusSection) -> Result<(), ConfigError> {
        let local = self.authentication.sockets.first().and_then(|socket| socket.local_addr().ok());
        let is_other = |server: &RadiusServer| local.is_some_and(|local| local.is_ipv4() != server.address.is_ipv4());
        let known = |server: &RadiusServer| self.config.server.iter().any(|old| old.address == server.address);
        match section.server.iter().position(|server| is_other(server) && !known(server)) {
            None => Ok(()),
            Some(n) => {
                let what = "the sockets of RADIUS are of the other IP version, that of the first server at start";
                let path: [&dyn ToString; 4] = [&"radius", &"server", &n, &"address"];
                Err(wrong(&path, what, "an address of that version, or restart the gateway"))
            }
        }
    }

    /// Goes by a configuration that was checked, from the next turn on.
    pub fn follow(&mut self, section: RadiusSection) {
        self.following = Some(section);
    }

    pub(super) fn go_by(&mut self, section: RadiusSection, now: Time, steady: Time) {
        let [authentication, accounting] = servers(&section);
        self.authentication.client.set_servers(steady.0, authentication);
        self.accounting.client.set_servers(steady.0, accounting);
        if let Some((_, server)) = &mut self.coa {
            server.set_clients(clients(&section), section.require_event_timestamp);
        }
        let before = (self.reports, self.config.interim_seconds);
        self.reports = takes_reports(&section);
        self.config = section;
        if before != (self.reports, self.config.interim_seconds) {
            self.schedule_interims(now);
        }
    }

    /// Interim reports of all sessions, those before forgotten.
    fn schedule_interims(&mut self, now: Time) {
        self.interims.clear();
        for (handle, account) in &mut self.accounts {
            let interval = u64::from(account.grant.interim.unwrap_or(self.config.interim_seconds)) * 1000;
            account.interim = if interval == 0 || !self.reports { 0 } else { now.0 + interval };
            if account.interim != 0 {
                self.interims.push(Reverse((account.interim, *handle)));
            }
        }
    }
}
