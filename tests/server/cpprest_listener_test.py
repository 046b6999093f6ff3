"""Why cpprestsdk does not listen here (docs/adr/0008-beast-on-the-wire.md): a chunk size of -1 ends its process.

Run as: python3 cpprest_listener_test.py PATH_OF_MC2 PATH_OF_THE_LISTENER
"""

import socket
import subprocess
import sys

from serving import ServiceTest, free_port, program, read_all

LISTENER = sys.argv[2]
NEGATIVE_CHUNK = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n"


class ListenerTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.listener = subprocess.Popen(
            [LISTENER, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(self.end_listener)
        self.assertEqual(self.listener.stdout.readline(), "listening\n")

    def end_listener(self):
        self.listener.stdin.close()
        try:
            self.listener.wait(10)
        except subprocess.TimeoutExpired:
            self.listener.kill()
            self.listener.wait()
        self.listener.stdout.close()

    def say(self, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def test_a_negative_chunk_ends_cpprestsdks_process_and_is_400_here(self):
        self.assertIn(b"200 OK", self.say(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        self.assertEqual(self.listener.stdout.readline(), "a handler ran\n")
        self.say(NEGATIVE_CHUNK)
        service = self.start()
        answer = service.raw(NEGATIVE_CHUNK.replace(b"POST /", b"POST /v1/plan"))
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer[:100])
        self.assertTrue(service.is_alive())
        try:
            code = self.listener.wait(5)
        except subprocess.TimeoutExpired:
            self.skipTest("this cpprestsdk survives a chunk size of -1: one reason of ADR 0008 is gone")
        self.assertLess(code, 0, "ended by a signal")


if __name__ == "__main__":
    program.main()
