/** A server as the target of a command. */
import { connect, type StreamOptions, UmbraClientError } from "../../client/index.ts"
import type { RemoteWorkflows } from "../../client/workflows.ts"
import { parseDocument, yamlInOnePiece } from "../../definition/index.ts"
import { invalidWorkflow, type Locate, type Problem, parsePath } from "../../definition/problem.ts"
import type { Definition } from "../../definition/typed/builder.ts"
import { type ErrorCode, errorTable, UmbraError } from "../../errors.ts"
import { version } from "../../version.ts"
import { printable } from "../output/terminal.ts"
import { streamedChanges } from "./changes.ts"
import type { Target } from "./open.ts"

export interface ServerAddress {
  readonly url: string
  readonly token?: string | (() => Promise<string>) | undefined
  /** The source of the token, for messages. */
  readonly tokenFrom?: string
  readonly owner?: string | undefined
  readonly flags: string
}

/** A person waits for the answer: an unreachable or silent server must be reported within seconds. */
const RETRIES = 2
const ANSWER_MS = 10_000

export function openServer({ url, token, tokenFrom, owner, flags }: ServerAddress): Target {
  const client = connect({
    url,
    retries: RETRIES,
    timeoutMs: ANSWER_MS,
    onRetry: ({ error }) => {
      if (process.stderr.isTTY) process.stderr.write(`${printable(error.message)} Retrying.\n`)
    },
    token,
    headers: owner === undefined ? undefined : { "umbra-owner": encodeURIComponent(owner) },
  })
  const { workflows, tokens, bulk, schedules, capacity } = client
  return {
    ...{ name: client.url, flags, jobs: client, bulk, schedules, workflows, tokens, capacity },
    executions: options => client.executions(options),
    compiledGraph: ({ job_id }) => client.compiledGraph(job_id),
    logPage: (...given) => client.logs.page(...given),
    artifacts: {
      put: (name, body, type) => client.artifacts.put(name, body, { type }),
      get: async hash => (await client.artifacts.get(hash)).body,
      list: options => client.artifacts.list(options),
      remove: (...given) => client.artifacts.remove(...given),
      sweep: options => client.artifacts.sweep(options),
    },
    push: text => pushText(workflows, text),
    changes: ({ signal, onTrouble }) =>
      streamedChanges(client, { signal, onReconnect: reconnectNotice(onTrouble) }),
    isRun: true,
    async close() {},
    explain: async error =>
      error instanceof UmbraClientError
        ? explain(error, { version: () => client.version(), tokenFrom })
        : error,
  }
}

/** Only the first two failures are printed. */
export function reconnectNotice(
  onTrouble: (text: string) => void,
): NonNullable<StreamOptions["onReconnect"]> {
  return ({ error, tries }) => {
    if (tries > 2) return
    onTrouble(
      error === undefined
        ? "The server closed the stream; reconnecting."
        : `${(error as Error).message} Retrying.`,
    )
  }
}

interface Circumstances {
  version(): Promise<string>
  readonly tokenFrom: string | undefined
}

/** The client's error, with advice for the command line. */
async function explain(error: UmbraClientError, { version, tokenFrom }: Circumstances): Promise<UmbraError> {
  const { code, message, problems, moreProblems: more } = error
  if (code === "E634") return await otherRelease(message, version)
  if (!(code in errorTable))
    return new UmbraError("E652", `the server returned ${code}, which is unknown to this release: ${message}`)
  const text = code === "E630" ? tokenText(tokenFrom) : message
  return new UmbraError(code as ErrorCode, text, {
    cause: error,
    details: { problems, ...(more === 0 ? {} : { more }) },
  })
}

function tokenText(tokenFrom: string | undefined): string {
  return tokenFrom === undefined
    ? "the server requires an API token: set UMBRA_TOKEN, or use --token-file FILE. Create a token with `umbra token create` on the server's machine."
    : `the token from ${tokenFrom} is unknown to the server or was revoked. \`umbra token list\` on the server's machine shows the valid tokens.`
}

async function otherRelease(message: string, askVersion: () => Promise<string>): Promise<UmbraError> {
  const theirs = await askVersion().catch(() => null)
  if (theirs === null)
    return new UmbraError(
      "E651",
      `${message} Check the URL: this server does not send its release, as Umbra servers do.`,
    )
  return theirs === version
    ? new UmbraError("E634", message)
    : new UmbraError(
        "E652",
        `the server has release ${theirs}, this command ${version}, and the server does not know this request: ${message}`,
      )
}

/** A server accepts only short YAML. Longer documents are parsed here, in the command's process, and sent as JSON. */
async function pushText(workflows: RemoteWorkflows, text: string): ReturnType<RemoteWorkflows["push"]> {
  if (Buffer.byteLength(text) <= yamlInOnePiece) return workflows.push(text)
  const { format, value, problems, locate } = parseDocument(text)
  if (format === "json") return workflows.push(text)
  if (value === undefined || problems.length > 0) throw invalidWorkflow(problems)
  return workflows.push(value as unknown as Definition).catch((error: unknown) => {
    throw error instanceof UmbraClientError ? located(error, locate) : error
  })
}

/** The server's lines and columns would refer to the JSON that was sent. */
function located(error: UmbraClientError, locate: Locate): UmbraClientError {
  const problems = (error.problems as readonly Problem[]).map(({ line: _, column: __, ...problem }) => ({
    ...problem,
    ...(typeof problem.path === "string" ? locate(parsePath(problem.path)) : {}),
  }))
  return new UmbraClientError(error.message, { ...error, problems })
}
