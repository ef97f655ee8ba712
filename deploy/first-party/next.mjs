// Next.js 16: save it as proxy.js in the root of the project, or in src. Older versions call the file middleware.js and the
// function middleware. Replace the folder, the names of the scripts and stats.example.com. docs/first-party.md has the
// reasons, and the addresses that TALLYGATE_TRUSTED_PROXIES needs.
//
// `rewrites` in next.config.js does not suffice: it passes the visitors' cookies on.
import { NextResponse } from 'next/server';

const server = 'https://stats.example.com';
const scripts = { 'app.js': 'svc.js', 'form.js': 'captcha.js' };

export const proxy = (request) => {
  const name = request.nextUrl.pathname.slice('/x/'.length);

  // These belong to the website: its sessions, and the full addresses of its pages.
  const headers = new Headers(request.headers);
  for (const each of ['cookie', 'authorization', 'referer']) headers.delete(each);

  const target = new URL(`${server}/${scripts[name] || name}${request.nextUrl.search}`);
  return NextResponse.rewrite(target, { request: { headers } });
};

export const config = { matcher: '/x/:path*' };
