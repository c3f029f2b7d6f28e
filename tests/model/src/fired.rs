//! What has happened on any path: a fault that never fires proves nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aedile_lease::protocol::{Claim, Reply, Request, Row};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)+) => {
        /// Something that can happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $kind,)+ }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];
        }
    };
}

kinds! {
    /// A node's clock lost a unit.
    ClockSlow,
    /// A node's clock gained a unit.
    ClockFast,
    /// A request was lost.
    RequestLost,
    /// A request was held up.
    RequestDelayed,
    /// An answer was lost after the commit.
    ReplyLost,
    /// An answer was held up.
    ReplyDelayed,
    /// A request arrived late.
    RequestLate,
    /// An answer arrived late.
    ReplyLate,
    /// A release was heard of.
    Announced,
    /// A node was paused.
    Paused,
    /// A tick ended.
    TickEnded,
    /// A term was given up.
    GivenUp,
    /// A node became ineligible.
    FellIll,
    /// A keeper was stopped.
    Stopped,
    /// A failover forgot writes.
    FailedOver,
    /// A lapsed lease was acquired from another holder.
    TakenLapsed,
    /// A node took its own row back.
    TakenOwn,
    /// A row that had not changed for a TTL was taken.
    TakenUnchanged,
    /// The lease was taken from a PicoMQ node.
    TakenNative,
    /// An acquisition was refused.
    AcquireRefused,
    /// A renewal was carried out.
    Renewed,
    /// A renewal was refused.
    RenewRefused,
    /// A lease was released.
    Released,
    /// A release was refused.
    ReleaseRefused,
    /// A PicoMQ node acquired the lease.
    NativeAcquired,
    /// A PicoMQ node acquired a lease that had not lapsed.
    NativeStole,
    /// A PicoMQ node's renewal was refused.
    NativeDemoted,
    /// A PicoMQ node was stopped.
    NativeStopped,
}

/// How often each happened.
#[derive(Default)]
pub struct Fired([AtomicU64; Kind::ALL.len()]);

impl Fired {
    /// It happened.
    pub fn note(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it happened, in all steps that were looked at.
    pub fn count(&self, kind: Kind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// A statement was carried out.
    pub(crate) fn request(
        &self,
        request: &Request,
        reply: &Reply,
        before: Option<&Row>,
        holder: &str,
    ) {
        let done = matches!(reply, Reply::Row(_));
        let other = before.is_some_and(|row| !row.holder.is_empty() && row.holder != holder);
        match request {
            Request::Acquire { .. } if !done => self.note(Kind::AcquireRefused),
            Request::Acquire { claim, .. } => match claim {
                Claim::Lapsed if other => self.note(Kind::TakenLapsed),
                Claim::Lapsed => {}
                Claim::Own => self.note(Kind::TakenOwn),
                Claim::Unchanged => self.note(Kind::TakenUnchanged),
                Claim::Native => self.note(Kind::TakenNative),
            },
            Request::Renew { .. } if done => self.note(Kind::Renewed),
            Request::Renew { .. } => self.note(Kind::RenewRefused),
            Request::Release { .. } if done => self.note(Kind::Released),
            Request::Release { .. } => self.note(Kind::ReleaseRefused),
            Request::Read | Request::Seed { .. } => {}
        }
    }
}

impl fmt::Debug for Fired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Kind::ALL.iter().map(|kind| (kind, self.count(*kind)));
        f.debug_map()
            .entries(counts.filter(|(_, count)| *count > 0))
            .finish()
    }
}
