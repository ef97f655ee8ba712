// Runs a handler of deploy/first-party behind an HTTP server, as its platform would: node edge.mjs HANDLER ADDRESS WEBSITE.
// Requests that the handler's path or route does not name go to the website.
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [handlerFile, address, website] = process.argv.slice(2);
const { default: handler } = await import(pathToFileURL(handlerFile));
const handle = handler.fetch ?? handler;

createServer(async (incoming, outgoing) => {
  const chunks = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const ip = incoming.socket.remoteAddress;
  const headers = { ...incoming.headers, 'cf-connecting-ip': ip, 'x-real-ip': ip };
  for (const name of ['connection', 'keep-alive', 'transfer-encoding', 'content-length']) delete headers[name];
  const body = ['GET', 'HEAD'].includes(incoming.method) ? undefined : Buffer.concat(chunks);
  const request = new Request(`http://${incoming.headers.host}${incoming.url}`, { method: incoming.method, headers, body });

  const ours = incoming.url.startsWith('/x/');
  const pages = { method: request.method, headers: { 'content-type': incoming.headers['content-type'] ?? '' }, body };
  const response = ours ? await handle(request, { ip }) : await fetch(website + incoming.url, pages);
  const shown = Object.fromEntries(response.headers);
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) if (!ours) delete shown[name];
  outgoing.writeHead(response.status, shown);
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}).listen(Number(address.split(':')[1]), '127.0.0.1');
