/**
 * The address of the bucket and the credentials for it: `s3://BUCKET/PREFIX`, and the variables that every S3 client reads. Endpoint, region
 * and path style may also be given in the location, `?endpoint=…&region=…&path_style=yes`, for a process whose handlers use another
 * service with these variables. Credentials may not: locations are shown in messages and logs.
 */
import { UmbraError } from "../../errors.ts"
import type { Environment } from "../../settings.ts"

export interface S3Location {
  readonly bucket: string
  /** In front of every key, with a slash at its end; empty: none. */
  readonly prefix: string
  /** The URL of the bucket, without a slash at its end. */
  readonly url: string
  readonly region: string
  readonly credentials: S3Credentials
  /** For messages. */
  readonly label: string
}

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string | undefined
}

const options = new Set(["endpoint", "region", "path_style"])

export function readLocation(location: string, environment: Environment = process.env): S3Location {
  const { bucket, prefix, given } = parse(location)
  const region = given.get("region") ?? first(environment, "AWS_REGION", "AWS_DEFAULT_REGION") ?? "us-east-1"
  const endpoint = given.get("endpoint") ?? first(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
  return {
    bucket,
    prefix: prefix === "" ? "" : `${prefix}/`,
    url: bucketUrl(bucket, { endpoint, region, pathStyle: given.get("path_style") ?? null }),
    region,
    credentials: readCredentials(environment),
    label: `s3://${bucket}/${prefix}`,
  }
}

function parse(location: string) {
  const [, bucket, path = "", query = ""] =
    /^s3:\/\/([\w.-]+)(?:\/([\w./=-]*))?(?:\?(.*))?$/i.exec(location) ?? []
  const segments = path.split("/").filter(segment => segment !== "")
  const given = new URLSearchParams(query)
  // The location is not repeated: it may contain credentials.
  if (bucket === undefined || segments.some(segment => /^\.+$/.test(segment)))
    throw invalid(
      "must be s3://BUCKET/PREFIX, with letters, digits and . _ - = in bucket and prefix, and no credentials",
    )
  const unknown = [...given.keys()].find(name => !options.has(name))
  if (unknown !== undefined)
    throw invalid(
      `has the unknown option ${JSON.stringify(unknown)}; known options: ${[...options].join(", ")}`,
    )
  return { bucket, prefix: segments.join("/"), given }
}

/** AWS wants the bucket in the host name; most other servers have one host name, and the bucket in the path. */
function bucketUrl(
  bucket: string,
  { endpoint, region, pathStyle }: { endpoint: string | undefined; region: string; pathStyle: string | null },
): string {
  if (pathStyle !== null && !/^(yes|no)$/.test(pathStyle))
    throw invalid("has a path_style that is not yes or no")
  const given = endpoint ?? `https://s3.${region}.amazonaws.com`
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "")
    throw invalid("needs an endpoint (AWS_ENDPOINT_URL_S3) that is an http or https URL without credentials")
  const path = url.pathname.replace(/\/+$/, "")
  // The certificates of AWS do not cover a bucket with a dot in its name.
  const inPath = pathStyle === null ? endpoint !== undefined || bucket.includes(".") : pathStyle === "yes"
  return inPath ? `${url.origin}${path}/${bucket}` : `${url.protocol}//${bucket}.${url.host}${path}`
}

function readCredentials(environment: Environment): S3Credentials {
  const accessKeyId = first(environment, "AWS_ACCESS_KEY_ID")
  const secretAccessKey = first(environment, "AWS_SECRET_ACCESS_KEY")
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw invalid("needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
  return { accessKeyId, secretAccessKey, sessionToken: first(environment, "AWS_SESSION_TOKEN") }
}

function first(environment: Environment, ...names: readonly string[]): string | undefined {
  return names.map(name => environment[name]?.trim()).find(value => value !== undefined && value !== "")
}

function invalid(what: string): UmbraError {
  return new UmbraError("E620", `The bucket for artifacts (UMBRA_ARTIFACTS=s3://…) ${what}.`)
}
