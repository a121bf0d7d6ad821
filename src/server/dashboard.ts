/**
 * The dashboard: files that the build has put into `dist/ui`, the same for everyone, so they need no session.
 *
 * 1. `/` and the paths below `/ui/` answer navigations of browsers with the page, whose script shows what the path names.
 *    Every other path is the API's: programs get there what they would get without a dashboard.
 * 2. No script runs but those of these files, and nothing is fetched from another host (CSP).
 * 3. Names in `assets/` contain a hash of their content, so browsers may keep them forever.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import files from "@fastify/static"
import type { FastifyReply, FastifyRequest } from "fastify"
import { UmbraError } from "../errors.ts"
import type { App } from "./route-context.ts"

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ")

const YEAR_MS = 365 * 24 * 3600 * 1000

export interface Dashboard {
  /** The folder with index.html and assets/. */
  readonly folder: string
  /** "", or the prefix that a proxy in front of this server adds to all paths, such as `/umbra`. */
  readonly basePath: string
}

export async function serveDashboard(app: App, { folder, basePath }: Dashboard): Promise<void> {
  const page = readPage(folder, basePath)
  const route = { config: { scope: "none", isFile: true }, schema: { hide: true } } as const

  const answerPage = (request: FastifyRequest, reply: FastifyReply) => {
    if (!isNavigation(request)) throw noRoute(request)
    if (page === null)
      throw new UmbraError(
        "E634",
        `This installation was built without the dashboard (${folder} is missing). \`npm run build\` builds it; /docs lists all routes.`,
      )
    return reply
      .headers({
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "cache-control": "no-cache",
        vary: "accept",
      })
      .serializer(String)
      .send(page)
  }
  app.get("/", route, answerPage)
  app.get("/ui", route, answerPage)
  app.get("/ui/*", route, answerPage)
  if (page === null) return

  await app.register(files, {
    root: folder,
    serve: false,
    preCompressed: true,
    index: false,
    dotfiles: "ignore",
  })
  app.get("/assets/*", route, (request, reply) => {
    const name = (request.params as { readonly "*": string })["*"]
    if (!/^\w[\w.-]*(\/\w[\w.-]*)*$/.test(name)) throw noRoute(request)
    return reply
      .header("content-security-policy", policy)
      .sendFile(`assets/${name}`, { maxAge: YEAR_MS, immutable: true })
  })
  for (const name of namesIn(folder))
    app.get(`/${name}`, route, (_, reply) => reply.sendFile(name, { maxAge: 0 }))
}

/** null: there is no dashboard. */
function readPage(folder: string, basePath: string): string | null {
  try {
    const page = readFileSync(join(folder, "index.html"), "utf8")
    // The page names its files from here, whatever its own path is.
    return page.replace(/<head[^>]*>/i, head => `${head}<base href="${basePath}/">`)
  } catch {
    return null
  }
}

/** Files beside the page, such as an icon. */
function namesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(
      entry => entry.isFile() && /^[a-z0-9][a-z0-9._-]*\.(?!html$|br$|gz$|map$)[a-z0-9]+$/i.test(entry.name),
    )
    .map(({ name }) => name)
}

function isNavigation({ headers }: FastifyRequest): boolean {
  const mode = headers["sec-fetch-mode"]
  return /\btext\/html\b/i.test(headers.accept ?? "") && (mode === undefined || mode === "navigate")
}

function noRoute({ method, url }: FastifyRequest): UmbraError {
  const path = url.replace(/\?.*/s, "").slice(0, 200)
  return new UmbraError("E634", `There is no route ${method} ${path}. /docs lists all routes.`)
}
