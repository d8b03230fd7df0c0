//! Answers that end with the right to read them, as long as the socket has not taken them.
//!
//! hyper takes a body into a buffer of its own, and drops the body long before a slow peer has read
//! it. So the connection itself keeps the future of each right's end. It forgets the future when
//! the socket has flushed all bytes behind the answer; if the end comes first, the connection is
//! closed in the middle of the answer, which the peer sees by the missing bytes.
//!
//! INVARIANT: an answer's future is polled by the task of its connection alone, before bytes are
//! written and again behind each answer that was made.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The answers of one connection that its socket has not taken; may be cloned freely.
#[derive(Clone, Default)]
pub struct Unwritten(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    next: u64,
    pending: Vec<Pending>,
}

struct Pending {
    number: u64,
    /// The whole answer is in the buffer of the connection.
    is_buffered: bool,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Unwritten {
    /// Returns a body that is not completed if `end` comes before the socket has taken it.
    pub fn body(
        &self,
        bytes: impl Into<Bytes>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> axum::body::Body {
        let mut answers = self.answers();
        let number = answers.next;
        answers.next += 1;
        answers.pending.push(Pending { number, is_buffered: false, end: Box::pin(end) });
        let bytes = Some(bytes.into());
        axum::body::Body::new(EndingBody { number, bytes, unwritten: self.clone() })
    }

    /// Polls a connection; ready when it has ended, or when one of its answers has to.
    pub(super) fn poll(
        &self,
        serving: Pin<&mut impl Future>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_any_over(context) || serving.poll(context).is_ready() {
            return Poll::Ready(());
        }
        // An answer that was made just now is polled too, so that its end wakes the task.
        if self.is_any_over(context) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_any_over(&self, context: &mut Context<'_>) -> bool {
        let mut answers = self.answers();
        let mut ends = answers.pending.iter_mut().map(|answer| &mut answer.end);
        ends.any(|end| end.as_mut().poll(context).is_ready())
    }

    fn is_buffered(&self, number: u64) {
        let mut answers = self.answers();
        let of_number = |answer: &&mut Pending| answer.number == number;
        if let Some(answer) = answers.pending.iter_mut().find(of_number) {
            answer.is_buffered = true;
        }
    }

    /// Forgets the answers before a flush that has succeeded: there is nothing left in the buffer.
    fn is_flushed(&self) {
        let mut answers = self.answers();
        answers.pending.retain(|answer| !answer.is_buffered);
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer: its bytes at once, so that there is no flush between them.
struct EndingBody {
    number: u64,
    bytes: Option<Bytes>,
    unwritten: Unwritten,
}

impl Body for EndingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

impl Drop for EndingBody {
    fn drop(&mut self) {
        self.unwritten.is_buffered(self.number);
    }
}

/// A connection's stream, whose flushes are told to its answers.
pub(super) struct Flushing {
    stream: TcpStream,
    unwritten: Unwritten,
    flushed: Box<dyn Fn() + Send>,
}

impl Flushing {
    /// `flushed` is called after each flush.
    pub fn new(stream: TcpStream, unwritten: Unwritten, flushed: Box<dyn Fn() + Send>) -> Flushing {
        Flushing { stream, unwritten, flushed }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Flushing {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Flushing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when its buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.as_mut().stream().poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.unwritten.is_flushed();
            (self.flushed)();
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::get;
    use axum::{Extension, Router};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;

    use super::super::{HttpFigures, HttpServer};
    use super::*;

    /// More than the system takes for a peer that reads nothing.
    const LEN: usize = 32 << 20;

    /// Counts the rights that are held for answers.
    struct Right(Arc<AtomicUsize>);

    impl Right {
        fn new(count: &Arc<AtomicUsize>) -> Right {
            count.fetch_add(1, Ordering::Relaxed);
            Right(count.clone())
        }
    }

    impl Drop for Right {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    struct Rig {
        stream: TcpStream,
        figures: Arc<HttpFigures>,
        rights: Arc<AtomicUsize>,
        revoked: Arc<Notify>,
    }

    impl Rig {
        /// A connection to a server whose answers end at a word.
        async fn start() -> Rig {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (rights, revoked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let (count, word) = (rights.clone(), revoked.clone());
            let answer = async move |Extension(unwritten): Extension<Unwritten>| {
                let (right, word) = (Right::new(&count), word.clone());
                let end = async move {
                    word.notified().await;
                    drop(right);
                };
                unwritten.body(vec![b'x'; LEN], end)
            };
            let router = Router::new().route("/", get(answer));
            let figures = Arc::new(HttpFigures::default());
            let server = HttpServer::new(router, 5, figures.clone());
            tokio::spawn(server.serve(listener, std::future::pending()));
            let stream = TcpStream::connect(address).await.unwrap();
            Rig { stream, figures, rights, revoked }
        }

        async fn ask(&mut self) {
            self.stream.write_all(b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n").await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(self.stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            assert!(head.contains(&format!("content-length: {LEN}\r\n")), "{head}");
        }

        async fn until_rights(&self, count: usize) {
            while self.rights.load(Ordering::Relaxed) != count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_ends_with_its_right() {
        let mut rig = Rig::start().await;
        rig.ask().await;
        assert_eq!(rig.rights.load(Ordering::Relaxed), 1);
        rig.revoked.notify_one();
        rig.until_rights(0).await;
        while rig.figures.report().http_connections > 0 {
            tokio::task::yield_now().await;
        }
        let mut rest = Vec::new();
        // The connection is closed or reset; the answer is not completed in either case.
        drop(rig.stream.read_to_end(&mut rest).await);
        assert!(rest.len() < LEN, "{} bytes", rest.len());
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_gives_its_right_back_and_the_connection_stays() {
        let mut rig = Rig::start().await;
        for _ in 0..2 {
            rig.ask().await;
            let mut body = vec![0; LEN];
            rig.stream.read_exact(&mut body).await.unwrap();
            rig.until_rights(0).await;
        }
        assert_eq!(rig.figures.report().http_connections, 1);
    }

    #[tokio::test]
    async fn a_peer_that_leaves_gives_its_right_back() {
        let mut rig = Rig::start().await;
        rig.ask().await;
        rig.stream.shutdown().await.unwrap();
        let Rig { stream, rights, .. } = rig;
        drop(stream);
        while rights.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    }
}
