//! sd_notify(3): a datagram that tells systemd the gateway is ready.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of a service manager.
pub struct Notify(UnixDatagram);

impl Notify {
    /// That of `$NOTIFY_SOCKET`; none: nobody waits to be told.
    pub fn connect() -> Option<Self> {
        Self::at(&env::var("NOTIFY_SOCKET").ok()?)
    }

    fn at(path: &str) -> Option<Self> {
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok()?,
            None => SocketAddr::from_pathname(path).ok()?,
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect_addr(&address).ok()?;
        Some(Self(socket))
    }

    /// Tells the service manager which process is the gateway from now on.
    pub(crate) fn main_process(&self, pid: i32) {
        let _ = self.0.send(format!("MAINPID={pid}").as_bytes());
    }

    /// Tells the service manager that the gateway takes packets (READY=1).
    pub fn ready(&self) {
        // A service manager that does not listen any more is no reason to stop.
        let _ = self.0.send(b"READY=1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_is_told() {
        let path = env::temp_dir().join(format!("weir-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        Notify::at(path.to_str().unwrap()).unwrap().ready();
        let mut said = [0; 64];
        let len = manager.recv(&mut said).unwrap();
        assert_eq!(&said[..len], b"READY=1");
        std::fs::remove_file(path).unwrap();
        let name = format!("weir-notify-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notify::at(&format!("@{name}")).unwrap().ready();
        assert_eq!(manager.recv(&mut said).unwrap(), len);
        assert!(Notify::at("/nowhere/at/all").is_none());
    }
}
