//! Addresses of sockets: the standard library promises no layout of `SocketAddr` and
//! `SocketAddrV6`.

use super::{Storable, taken_out};
use crate::description::forms::Form;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The form of both; of an address of IPv4 the first four bytes of `ip` count.
#[doc(hidden)]
#[derive(Clone, Copy, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RawSocket {
    ip: [u8; 16],
    flowinfo: u32,
    scope: u32,
    port: u16,
    /// 4 or 6.
    version: u16,
}

impl Storable for SocketAddrV6 {
    type Raw = RawSocket;
    const FORM: Form = Form::SocketAddrV6;

    fn to_raw(self) -> RawSocket {
        let (ip, port) = (self.ip().octets(), self.port());
        RawSocket { ip, flowinfo: self.flowinfo(), scope: self.scope_id(), port, version: 6 }
    }

    fn of_raw(raw: &RawSocket) -> Option<SocketAddrV6> {
        Some(SocketAddrV6::new(Ipv6Addr::from_octets(raw.ip), raw.port, raw.flowinfo, raw.scope))
    }
}

impl Storable for SocketAddr {
    type Raw = RawSocket;
    const FORM: Form = Form::SocketAddr;

    fn to_raw(self) -> RawSocket {
        match self {
            SocketAddr::V4(four) => {
                let mut ip = [0; 16];
                ip[..4].copy_from_slice(&four.ip().octets());
                RawSocket { ip, flowinfo: 0, scope: 0, port: four.port(), version: 4 }
            }
            SocketAddr::V6(six) => six.to_raw(),
        }
    }

    fn of_raw(raw: &RawSocket) -> Option<SocketAddr> {
        match raw.version {
            4 => {
                let ip = Ipv4Addr::new(raw.ip[0], raw.ip[1], raw.ip[2], raw.ip[3]);
                Some(SocketAddr::V4(SocketAddrV4::new(ip, raw.port)))
            }
            _ => SocketAddrV6::of_raw(raw).map(SocketAddr::V6),
        }
    }
}

taken_out!(SocketAddr, SocketAddrV6);
