/** Input, config as rendered, and output: payloads of facts as trees. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { bytes, count, counted } from "../../model/format.ts"
import { completedBy, jobOutput, type Payload, readPayload } from "../../model/payloads.ts"
import type { JobSource } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { DownloadButton } from "../../shell/download.tsx"
import { Failed, Loading } from "../../shell/states.tsx"
import { ErrorBox } from "./error-box.tsx"
import { JsonTree } from "./json-tree.tsx"

/** Larger payloads are read only on request. */
const READ_AT_ONCE = 64 * 1024

interface TabProps {
  readonly timeline: Timeline
  readonly moment: Moment
  readonly source: JobSource
}

export function PayloadView({
  payload,
  source,
  label,
}: {
  payload: Payload | null
  source: JobSource
  label: string
}) {
  const [isWanted, setWanted] = useState<string | null>(null)
  if (payload === null) return null
  const { ref } = payload
  if (ref === undefined) return <JsonTree source={{ value: payload.value! }} label={label} />
  const whole = source.payload(ref.seq, ref.field)
  const key = `${ref.seq} ${ref.field}`
  const about = `${bytes(ref.bytes)}${ref.count === undefined ? "" : `, ${counted(ref.count, "item")}`} · sha256 ${ref.hash.slice(0, 8)}`
  const isRead = whole !== null && (ref.bytes <= READ_AT_ONCE || isWanted === key)
  return (
    <>
      <p className="row tiny dim">
        <span>{about}</span>
        <span className="sp" />
        {whole !== null && "address" in whole && (
          <DownloadButton className="link" address={whole.address} name={`${label}.json`}>
            Download
          </DownloadButton>
        )}
      </p>
      {isRead ? (
        <JsonTree key={key} source={whole} label={label} />
      ) : (
        <>
          <pre className="inset code wrap">{ref.preview}…</pre>
          {whole === null ? (
            <p className="small dim">This file contains only the beginning.</p>
          ) : (
            <button className="btn sm" type="button" onClick={() => setWanted(key)}>
              Read all {bytes(ref.bytes)}
            </button>
          )}
        </>
      )}
    </>
  )
}

export function InputTab({ timeline, source }: Omit<TabProps, "moment">) {
  return <PayloadView payload={readPayload(timeline.facts[0], "input")} source={source} label="input" />
}

export function OutputTab({
  timeline,
  moment,
  source,
  node,
  item,
}: TabProps & { node: number | null; item: number | null }) {
  if (node === null) {
    const payload = jobOutput(timeline, moment.index)
    if (payload !== null) return <PayloadView payload={payload} source={source} label="output" />
    const ended = moment.view.status === "COMPLETED"
    return (
      <p className="none">
        {ended ? "The workflow has no output template." : "No output: the job is not done."}
      </p>
    )
  }
  const { for_each } = timeline.graph.nodes[node]!
  if (for_each && item === null)
    return <p className="none">Each item has its own output: choose one under Items.</p>
  const fact = completedBy(timeline, node, moment.index, item ?? undefined)
  const waited = waitedOutput(timeline, node, moment.index, item ?? undefined)
  const payload =
    readPayload(fact, fact?.type === "signal_received" ? "data" : "output") ??
    (isDone(moment, node) ? waited : null)
  const label = item === null ? "output" : `output of item ${count(item)}`
  if (payload !== null) return <PayloadView payload={payload} source={source} label={label} />
  const { status } = moment.view.nodes[node]!
  return (
    <p className="none">
      {status === "COMPLETED"
        ? "The output is that of its wait: it is not in a fact of this node."
        : status === "SKIPPED"
          ? "No output: the node was skipped."
          : "No output: the node is not done."}
    </p>
  )
}

function isDone({ view }: Moment, node: number): boolean {
  return view.nodes[node]!.status === "COMPLETED"
}

/** A node that slept completes with the output that its handler gave before. */
function waitedOutput(
  timeline: Timeline,
  node: number,
  index: number,
  item: number | undefined,
): Payload | null {
  for (const place of (timeline.factsByNode.get(node) ?? []).toReversed()) {
    const record = timeline.facts[place]!
    if (place >= index || record.item !== item) continue
    if (record.type !== "node_waiting" && record.type !== "item_waiting") continue
    const waiting = record.waiting as { readonly output?: unknown }
    const found = readPayload({ ...record, output: waiting.output } as never, "output")
    return found === null ? null : { ...found, field: "waiting.output" }
  }
  return null
}

export function ConfigTab({
  timeline,
  moment,
  source,
  node,
  item,
}: TabProps & { node: number; item: number | null }) {
  const compiled = timeline.graph.nodes[node]!
  const { status } = moment.view.nodes[node]!
  if (compiled.for_each && item === null)
    return <p className="none">Each item has its own config: choose one under Items.</p>
  if (status === "PENDING") return <p className="none">Not rendered yet: it reads what is not done.</p>
  if (status === "SKIPPED") return <p className="none">Not rendered: the node was skipped.</p>
  if (source.config === null) return <p className="none">This file does not contain configs.</p>
  return (
    <Rendered
      source={source}
      node={compiled.id}
      item={item ?? undefined}
      attempt={moment.isLive ? undefined : moment.view.nodes[node]!.attempt}
    />
  )
}

function Rendered({
  source,
  node,
  item,
  attempt,
}: {
  source: JobSource
  node: string
  item: number | undefined
  attempt: number | undefined
}) {
  const { data, error, refetch } = useQuery({
    queryKey: ["config", source.jobId, node, item ?? null, attempt ?? null],
    queryFn: () => source.config!(node, { item, attempt }),
  })
  if (error !== null) return <Failed what="The config" error={error} onRetry={() => void refetch()} />
  if (data === undefined) return <Loading what="the config" rows={4} />
  return (
    <>
      <p className="tiny dim">Rendered again from the facts before this attempt; secrets are masked.</p>
      {data.when !== null && <p className="small">Its condition was {String(data.when)}.</p>}
      {data.error === null ? (
        <JsonTree source={{ value: data.config }} label="config" />
      ) : (
        <ErrorBox error={data.error} />
      )}
    </>
  )
}
