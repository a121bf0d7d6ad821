/**
 * The artifacts of a node or of the job: images, video and audio are shown, all can be downloaded. Their content is what a handler
 * stored, so it is never a page or a script of the dashboard: it is shown by elements that execute nothing.
 */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { useEffect, useMemo, useRef, useState } from "react"
import type { ArtifactMention } from "../../../../src/core/index.ts"
import { ApiError, buildUrl, ownHeaders, viewedOwner } from "../../api/http.ts"
import { collectMentions, hasMore, mentionsAt } from "../../model/artifacts.ts"
import { bytes, clock, count, visible } from "../../model/format.ts"
import type { JobSource } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { DownloadButton } from "../../shell/download.tsx"
import { Icon } from "../../shell/icons.tsx"
import { changeQuery, usePlace } from "../../shell/router.ts"
import { Empty, Failed, Loading, ShowMore } from "../../shell/states.tsx"
import { Spaced, useRange } from "../virtual.tsx"

const ROW = 44
/** Larger images have no small one in the list. */
const THUMBNAIL_BYTES = 2_000_000
/** Larger content is not read as a whole. */
const BLOB_BYTES = 50_000_000

interface ArtifactsTabProps {
  readonly source: JobSource
  readonly timeline: Timeline
  readonly moment: Moment
  /** null: those of the job. */
  readonly node: number | null
  readonly item: number | null
}

interface Row extends ArtifactMention {
  readonly item?: number | undefined
  readonly removed_at?: string | null
}

export default function ArtifactsTab(props: ArtifactsTabProps) {
  const { source, timeline, moment, node } = props
  const { query } = usePlace()
  const read = useInfiniteQuery({
    // What is new may be an artifact.
    queryKey: ["artifacts", source.jobId, collectMentions(timeline).length, moment.view.status],
    queryFn: ({ pageParam, signal }) => source.artifacts!(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: page => page.next,
    enabled: source.artifacts !== null,
    placeholderData: before => before,
  })
  const pages = read.data?.pages
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline changes in place; the moment names its facts.
  const rows = useMemo(
    () => artifactRows(props, pages),
    [pages, timeline, moment.index, moment.isLive, node, props.item],
  )
  const failed = (
    <Failed what="The list of artifacts" error={read.error} onRetry={() => void read.refetch()} />
  )
  if (source.artifacts !== null && pages === undefined)
    return read.error === null ? <Loading what="the artifacts" rows={4} /> : failed
  const shown =
    rows.find(row => row.artifact === query.get("artifact")) ?? rows.find(row => mediaKind(row) !== null)
  return (
    <>
      {read.error !== null && failed}
      {rows.length === 0 ? (
        <Empty title={moment.isLive ? "No artifacts" : "No artifacts at this moment"} />
      ) : (
        <>
          {shown !== undefined && source.artifacts !== null && <Shown key={shown.artifact} row={shown} />}
          <List rows={rows} shown={shown} hasContent={source.artifacts !== null} />
        </>
      )}
      {node === null ? (
        <ShowMore read={read} />
      ) : (
        hasMore(props) && (
          <p className="small dim">
            An output refers to many artifacts, and only the first are listed here. The artifacts of the job
            are all of them.
          </p>
        )
      )}
      {source.artifacts === null && <p className="small dim">This file does not contain the content.</p>}
    </>
  )
}

type Pages = readonly Awaited<ReturnType<NonNullable<JobSource["artifacts"]>>>[]

/** Those of a node are what its facts refer to. Those of the job are also in messages of a pipeline, which are no facts. */
function artifactRows(
  { source, timeline, moment, node, item }: ArtifactsTabProps,
  pages: Pages = [],
): readonly Row[] {
  const stored = pages.flatMap(({ artifacts }) => artifacts)
  const mentions = mentionsAt({ timeline, moment, node, item })
  if (node !== null || source.artifacts === null) {
    const byHash = new Map(stored.map(each => [each.artifact, each]))
    return mentions.map(mention => ({ ...byHash.get(mention.artifact), ...mention }))
  }
  const here = new Set(mentions.map(({ artifact }) => artifact))
  const later = new Set(collectMentions(timeline).map(({ artifact }) => artifact))
  return stored
    .filter(
      ({ artifact, created_at }) =>
        here.has(artifact) ||
        (!later.has(artifact) && (moment.isLive || Date.parse(created_at) <= moment.at)),
    )
    .sort((a, b) => (a.created_at < b.created_at ? -1 : 1))
}

type Kind = "image" | "video" | "audio"

/** What it can be shown as; null: it is only downloaded. */
function mediaKind({ type = "", removed_at: removed }: Row): Kind | null {
  return removed == null ? ((/^(image|video|audio)\//.exec(type)?.[1] as Kind | undefined) ?? null) : null
}

const shownName = ({ name, artifact }: Row): string => visible(name ?? artifact.slice(0, 15))

function contentAddress({ artifact, name }: Row): string {
  return buildUrl(`/artifacts/${artifact}`, { name })
}

/**
 * The request of an element has no header that names the viewed owner, and over plain HTTP none that names the page. A
 * script can send both.
 */
const isDirect = (): boolean => window.isSecureContext && viewedOwner() === null

function List({
  rows,
  shown,
  hasContent,
}: {
  rows: readonly Row[]
  shown: Row | undefined
  hasContent: boolean
}) {
  const ref = useRef<HTMLDivElement>(null)
  const range = useRange(ref, rows.length, ROW)
  return (
    <div className="arts" ref={ref} role="group" aria-label="Artifacts" tabIndex={0}>
      <Spaced total={rows.length} rowHeight={ROW} range={range}>
        {rows.slice(range.from, range.to).map(row => (
          <div className="art" key={`${row.artifact} ${row.item} ${row.name}`} aria-current={row === shown}>
            <Choose row={row} isOn={hasContent} />
            {!hasContent ? null : row.removed_at == null ? (
              <Download row={row} />
            ) : (
              <span className="small dim">Removed</span>
            )}
          </div>
        ))}
      </Spaced>
    </div>
  )
}

function Choose({ row, isOn }: { row: Row; isOn: boolean }) {
  const { artifact, type, item, bytes: size } = row
  const kind = mediaKind(row)
  const about = [
    type,
    size === undefined ? undefined : bytes(size),
    item === undefined ? undefined : `item ${count(item)}`,
  ]
  const texts = (
    <span className="trunc">
      <b title={artifact}>{shownName(row)}</b>
      <span className="tiny dim">{about.filter(text => text !== undefined).join(" · ")}</span>
    </span>
  )
  const box = <span className="thumb">{isOn && kind !== null && <Thumbnail row={row} kind={kind} />}</span>
  if (!isOn || (kind === null && row.removed_at == null))
    return (
      <span className="ac">
        {box}
        {texts}
      </span>
    )
  return (
    <button className="ac" type="button" onClick={() => changeQuery({ artifact }, { replace: true })}>
      {box}
      {texts}
    </button>
  )
}

function Thumbnail({ row, kind }: { row: Row; kind: Kind }) {
  const [isBroken, setBroken] = useState(false)
  if (kind !== "image" || isBroken || !isDirect() || (row.bytes ?? 0) > THUMBNAIL_BYTES)
    return <Icon name="play" />
  return <img src={contentAddress(row)} alt="" loading="lazy" onError={() => setBroken(true)} />
}

function Download({ row }: { row: Row }) {
  const name = row.name ?? row.artifact.slice(7, 19)
  const label = (
    <>
      Download<span className="sr"> {shownName(row)}</span>
    </>
  )
  if (isDirect())
    return (
      <a className="link" href={contentAddress(row)} download={name}>
        {label}
      </a>
    )
  return (
    <DownloadButton className="link" address={contentAddress(row)} name={name}>
      {label}
    </DownloadButton>
  )
}

/** One of them, as large as there is place. */
function Shown({ row }: { row: Row }) {
  const kind = mediaKind(row)
  if (row.removed_at != null)
    return (
      <p className="inset" data-state="removed">
        The content of {shownName(row)} was removed at {clock(Date.parse(row.removed_at))}.
      </p>
    )
  if (kind === null) return null
  if (isDirect()) return <Media row={row} kind={kind} src={contentAddress(row)} />
  const isReadable = kind === "image" && !/svg/i.test(row.type!) && (row.bytes ?? 0) <= BLOB_BYTES
  return isReadable ? <Fetched row={row} /> : <p className="none">It is not shown here. Download it.</p>
}

/** An image that a script has read: never a document, as SVG is one. */
function Fetched({ row }: { row: Row }) {
  const [src, setSrc] = useState<string | null>(null)
  const { data, error, refetch } = useQuery({
    queryKey: ["content", row.artifact],
    queryFn: async () => {
      const response = await fetch(contentAddress(row), { headers: ownHeaders() })
      if (response.ok) return response.blob()
      throw new ApiError(`The server answered ${response.status}.`, { status: response.status })
    },
    gcTime: 0,
  })
  useEffect(() => {
    if (data === undefined) return
    const url = URL.createObjectURL(data)
    setSrc(url)
    return () => URL.revokeObjectURL(url)
  }, [data])
  if (error !== null) return <Failed what={shownName(row)} error={error} onRetry={() => void refetch()} />
  return src === null ? (
    <div className="amed" data-state="loading" />
  ) : (
    <Media row={row} kind="image" src={src} />
  )
}

function Media({ row, kind, src }: { row: Row; kind: Kind; src: string }) {
  const [state, setState] = useState<"loading" | "loaded" | "broken">("loading")
  if (state === "broken") return <Broken row={row} onRetry={() => setState("loading")} />
  const loaded = () => setState("loaded")
  const broken = () => setState("broken")
  const shared = { src, className: "amed", "data-state": state, onError: broken }
  if (kind === "image") return <img {...shared} alt={shownName(row)} onLoad={loaded} />
  const Player = kind
  return (
    <Player {...shared} controls preload="metadata" aria-label={shownName(row)} onLoadedMetadata={loaded}>
      <track kind="captions" />
    </Player>
  )
}

/** An element does not say why it shows nothing: the server does. */
function Broken({ row, onRetry }: { row: Row; onRetry: () => void }) {
  const { data: status, error } = useQuery({
    queryKey: ["content status", row.artifact],
    queryFn: async () => (await fetch(contentAddress(row), { method: "HEAD", headers: ownHeaders() })).status,
    gcTime: 0,
  })
  if (status === undefined && error === null) return <div className="amed" data-state="loading" />
  if (status === 410 || status === 404)
    return (
      <p className="inset" data-state="removed">
        The content of {shownName(row)} was removed.
      </p>
    )
  if (status !== 200)
    return (
      <Failed
        what={shownName(row)}
        error={error ?? new ApiError(`The server answered ${status}.`, { status: status! })}
        onRetry={onRetry}
      />
    )
  return (
    <p className="inset" data-state="unknown">
      This browser cannot show {shownName(row)}. Download it.
    </p>
  )
}
