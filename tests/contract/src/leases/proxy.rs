//! A TCP proxy on loopback that can stop forwarding.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    /// Connections of this number and above are forwarded to the server.
    requests_from: u64,
    /// Connections of this number and above are forwarded back.
    replies_from: u64,
}

/// A proxy before a server. What it holds back arrives when it is opened again,
/// as after a stall of the network or of the server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
    flow: watch::Sender<Flow>,
    next: watch::Sender<u64>,
    /// Ends the connections that there are.
    cut: CancellationToken,
    /// Ends the listening.
    listening: CancellationToken,
    tasks: TaskTracker,
}

impl Proxy {
    /// Begin to forward to this server.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start(host: &str, port: u16) -> io::Result<Self> {
        let server = tokio::net::lookup_host((host, port))
            .await?
            .next()
            .ok_or_else(|| io::Error::other("the server has no address"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let mut proxy = Self {
            address: listener.local_addr()?,
            server,
            flow: watch::Sender::default(),
            next: watch::Sender::default(),
            cut: CancellationToken::new(),
            listening: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        proxy.listen(listener);
        Ok(proxy)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Hold everything back, new connections too.
    pub fn black_hole(&self) {
        self.flow.send_replace(Flow {
            requests_from: u64::MAX,
            replies_from: u64::MAX,
        });
    }

    /// Hold back the connections that there are; new ones work.
    pub fn freeze_existing(&self) {
        let from = *self.next.borrow();
        self.flow.send_replace(Flow {
            requests_from: from,
            replies_from: from,
        });
    }

    /// Requests arrive; replies are held back.
    pub fn mute(&self) {
        self.flow.send_replace(Flow {
            requests_from: 0,
            replies_from: u64::MAX,
        });
    }

    /// Forward everything, what was held back first.
    pub fn open(&self) {
        self.flow.send_replace(Flow::default());
    }

    /// End every connection and refuse new ones.
    pub async fn refuse(&mut self) {
        self.listening.cancel();
        self.cut.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Listen again, on the same port.
    ///
    /// # Errors
    /// The port was taken meanwhile.
    pub async fn accept(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.cut = CancellationToken::new();
        self.listening = CancellationToken::new();
        self.tasks.reopen();
        self.open();
        self.listen(listener);
        Ok(())
    }

    /// How many connections there have been.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn listen(&mut self, listener: TcpListener) {
        let (server, cut, listening) = (self.server, self.cut.clone(), self.listening.clone());
        let (flow, next, tasks) = (self.flow.clone(), self.next.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = listening.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((client, _)) = accepted else { return };
                let number = *next.borrow();
                next.send_replace(number + 1);
                let (flow, cut) = (flow.clone(), cut.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        _ = forward(client, server, number, flow) => {}
                    }
                });
            }
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.cancel();
        self.cut.cancel();
    }
}

async fn forward(
    client: TcpStream,
    server: SocketAddr,
    number: u64,
    flow: watch::Sender<Flow>,
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = copy(from_client, to_server, flow.subscribe(), move |flow| {
        number >= flow.requests_from
    });
    let replies = copy(from_server, to_client, flow.subscribe(), move |flow| {
        number >= flow.replies_from
    });
    tokio::try_join!(requests, replies)?;
    Ok(())
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
    passes: impl Fn(&Flow) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        // Not even the end of a connection gets through a hole.
        if flow.wait_for(|flow| passes(flow)).await.is_err() {
            return Ok(());
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}
