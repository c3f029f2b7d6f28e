//! A proxy on loopback before a PostgreSQL server, which loses messages on
//! request. Every fault counts how often it fired.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// What becomes of the next append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lose {
    /// It reaches the server, which commits it; the reply is dropped and the
    /// connection cut.
    Reply,
    /// It never reaches the server; the connection is cut.
    Request,
}

/// What a message is known by.
const APPEND: &[u8] = b"INSERT INTO meta_log";

/// The server's last word on a request: it waits for the next.
const READY: &[u8] = b"Z\0\0\0\x05";

#[derive(Debug, Default)]
struct Faults {
    reply: AtomicUsize,
    request: AtomicUsize,
    lost: AtomicUsize,
    /// New connections are refused after a loss.
    shut_after: AtomicBool,
    /// Nothing passes, and nothing is cut.
    frozen: watch::Sender<bool>,
    /// Connections are cut as soon as they come.
    shut: watch::Sender<bool>,
}

/// The proxy. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Start one before a server.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(host: String, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own = listener.local_addr()?.port();
        let faults = Arc::new(Faults::default());
        let task = tokio::spawn(serve(listener, host, port, faults.clone()));
        Ok(Self {
            port: own,
            faults,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lose so many of the next appends.
    pub fn lose(&self, what: Lose, times: usize) {
        match what {
            Lose::Reply => &self.faults.reply,
            Lose::Request => &self.faults.request,
        }
        .store(times, Ordering::SeqCst);
    }

    /// After the next loss nobody gets through, until [`Proxy::open`].
    pub fn shut_after_loss(&self) {
        self.faults.shut_after.store(true, Ordering::SeqCst);
    }

    /// Let connections through again.
    pub fn open(&self) {
        self.faults.shut.send_replace(false);
    }

    /// Whether nobody gets through.
    pub fn is_shut(&self) -> bool {
        *self.faults.shut.borrow()
    }

    /// Cut everything, and let nobody through.
    pub fn shut(&self) {
        self.faults.shut.send_replace(true);
    }

    /// Stop passing anything on, with every connection open; or go on.
    pub fn freeze(&self, frozen: bool) {
        self.faults.frozen.send_replace(frozen);
    }

    /// How many appends were lost.
    pub fn lost(&self) -> usize {
        self.faults.lost.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, host: String, port: u16, faults: Arc<Faults>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        if *faults.shut.borrow() {
            continue;
        }
        let (host, faults) = (host.clone(), faults.clone());
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect((host.as_str(), port)).await else {
                return;
            };
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let swallow = Arc::new(AtomicBool::new(false));
            let mut shut = faults.shut.subscribe();
            // Whichever way ends, both are cut.
            tokio::select! {
                () = requests(from_client, to_server, &faults, &swallow) => {}
                () = replies(from_server, to_client, &faults, &swallow) => {}
                _ = shut.wait_for(|shut| *shut) => {}
            }
        });
    }
}

/// Take one of what is to be lost.
fn take(count: &AtomicUsize) -> bool {
    count
        .try_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        })
        .is_ok()
}

fn fired(faults: &Faults) {
    faults.lost.fetch_add(1, Ordering::SeqCst);
    if faults.shut_after.swap(false, Ordering::SeqCst) {
        faults.shut.send_replace(true);
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &Faults,
    swallow: &AtomicBool,
) {
    let mut frozen = faults.frozen.subscribe();
    let mut buffer = vec![0; 1 << 20];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        let _ = frozen.wait_for(|frozen| !frozen).await;
        let message = &buffer[..bytes];
        if message.windows(APPEND.len()).any(|part| part == APPEND) {
            if take(&faults.request) {
                fired(faults);
                return;
            }
            if take(&faults.reply) {
                swallow.store(true, Ordering::SeqCst);
            }
        }
        if to.write_all(message).await.is_err() {
            return;
        }
    }
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &Faults,
    swallow: &AtomicBool,
) {
    let mut frozen = faults.frozen.subscribe();
    let mut buffer = vec![0; 1 << 20];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        let _ = frozen.wait_for(|frozen| !frozen).await;
        let message = &buffer[..bytes];
        if swallow.load(Ordering::SeqCst) {
            // Only once the server is done has it committed.
            if message.windows(READY.len()).any(|part| part == READY) {
                fired(faults);
                return;
            }
            continue;
        }
        if to.write_all(message).await.is_err() {
            return;
        }
    }
}
