//! The HTTP pages of a node, read as plainly as HTTP/1.0 allows.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The status code and the body of a page; an error if nobody answers in time.
pub(crate) async fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(2), asked).await??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::InvalidData)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}
