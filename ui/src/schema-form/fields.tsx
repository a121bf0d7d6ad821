/** Fields for single values. An empty field means no value: the server reports which are required. */
import { type ReactNode, useState } from "react"
import type { Json } from "../../../src/core/index.ts"
import { StateMark } from "../shell/icons.tsx"
import { formatHelp, type Shape } from "./schema.ts"
import type { FieldParts } from "./schema-form.tsx"

type ShapeOf<Kind extends Shape["kind"]> = Extract<Shape, { readonly kind: Kind }>
type FieldOf<Kind extends Shape["kind"]> = FieldParts & { readonly shape: ShapeOf<Kind> }

/** Texts of up to this length have one line. */
const SHORT = 120

/** Label, control, help and problems. The control gets their ids. */
function Field({
  parts,
  shape,
  isWide = false,
  children,
}: {
  parts: FieldParts
  shape: Shape
  isWide?: boolean
  children: (ids: { id: string; "aria-describedby": string; "aria-invalid": boolean }) => ReactNode
}) {
  const { id, label, isRequired, problems } = parts
  const help = formatHelp(shape)
  return (
    <div className={isWide ? "sf wide" : "sf"} data-path={parts.pathText}>
      <label htmlFor={id}>
        {label}
        {isRequired && <span className="dim"> required</span>}
      </label>
      {children({
        id,
        "aria-describedby": `${id}-help ${id}-problem`,
        "aria-invalid": problems.length > 0,
      })}
      {help !== "" && (
        <p className="help" id={`${id}-help`}>
          {help}
        </p>
      )}
      <Problems id={`${id}-problem`} problems={problems} />
    </div>
  )
}

export function Problems({ id, problems }: { id: string; problems: readonly string[] }) {
  return (
    <div id={id} aria-live="polite">
      {problems.map(problem => (
        <p key={problem} className="prob">
          <StateMark status="FAILED" small />
          {problem}
        </p>
      ))}
    </div>
  )
}

export function TextField({ shape, ...parts }: FieldOf<"string">) {
  const { maxLength, format } = shape.schema
  const text =
    typeof parts.value === "string" ? parts.value : parts.value === undefined ? "" : shown(parts.value)
  const isShort =
    !text.includes("\n") &&
    (typeof format === "string" || (typeof maxLength === "number" && maxLength <= SHORT))
  const change = (next: string) => parts.onChange(next === "" ? undefined : next)
  return (
    <Field parts={parts} shape={shape} isWide={!isShort}>
      {ids =>
        isShort ? (
          <input
            {...ids}
            className="in"
            value={text}
            autoComplete="off"
            spellCheck={false}
            onChange={event => change(event.target.value)}
          />
        ) : (
          <textarea
            {...ids}
            className="in text"
            rows={1}
            value={text}
            onChange={event => change(event.target.value)}
          />
        )
      }
    </Field>
  )
}

/** Input that is not a number stays text, and the server reports the problem at this field. */
export function NumberField({ shape, ...parts }: FieldOf<"number">) {
  const [text, setText] = useState<string | null>(null)
  const read = (entered: string): Json | undefined => {
    if (entered.trim() === "") return undefined
    const number = Number(entered)
    return Number.isFinite(number) ? number : entered
  }
  // While it is typed, "1." and "1e" stay as they are.
  const isTyped = text !== null && read(text) === parts.value
  return (
    <Field parts={parts} shape={shape}>
      {ids => (
        <input
          {...ids}
          className="in"
          inputMode={shape.isWhole ? "numeric" : "decimal"}
          autoComplete="off"
          value={isTyped ? text : parts.value === undefined ? "" : shown(parts.value)}
          onChange={event => {
            setText(event.target.value)
            parts.onChange(read(event.target.value))
          }}
        />
      )}
    </Field>
  )
}

export function ChoiceField({ shape, ...parts }: FieldOf<"choice">) {
  const { choices } = shape
  const chosen = choices.findIndex(({ value }) => JSON.stringify(value) === JSON.stringify(parts.value))
  const isOther = chosen === -1 && parts.value !== undefined
  return (
    <Field parts={parts} shape={shape}>
      {ids => (
        <select
          {...ids}
          className="in"
          value={isOther ? "other" : chosen}
          onChange={event => parts.onChange(choices[Number(event.target.value)]?.value)}
        >
          {isOther && <option value="other">{shown(parts.value!)}</option>}
          {(!parts.isRequired || chosen === -1) && (
            <option value={-1}>{parts.isRequired ? "Choose" : "Not set"}</option>
          )}
          {choices.map(({ label }, n) => (
            <option key={`${label} ${shown(choices[n]!.value)}`} value={n}>
              {label}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

export function SwitchField({ shape, ...parts }: FieldOf<"boolean">) {
  const { id, label, isRequired, problems, value } = parts
  const help = formatHelp(shape)
  const isSet = value !== undefined
  return (
    <div className="sf wide" data-path={parts.pathText}>
      <div className="swl">
        <input
          id={id}
          type="checkbox"
          className="switch"
          checked={value === true}
          aria-describedby={`${id}-help ${id}-problem`}
          aria-invalid={problems.length > 0}
          onChange={event => parts.onChange(event.target.checked)}
        />
        <label htmlFor={id}>
          {label}
          {isRequired && <span className="dim"> required</span>}
        </label>
        <span className="help" id={`${id}-help`}>
          {help}
          {!isSet && " Not set."}
        </span>
        {isSet && !isRequired && shape.schema.default === undefined && (
          <button className="btn ghost sm" type="button" onClick={() => parts.onChange(undefined)}>
            Clear<span className="sr"> {label}</span>
          </button>
        )}
      </div>
      <Problems id={`${id}-problem`} problems={problems} />
    </div>
  )
}

/** Values that fields cannot express. Text that is not JSON stays in the field, and is not applied. */
export function JsonField({ shape, ...parts }: FieldOf<"json">) {
  const { value } = parts
  const [draft, setDraft] = useState<string | null>(null)
  const fault = draft === null ? null : findJsonFault(draft)
  const text = draft ?? (value === undefined ? "" : JSON.stringify(value, null, 2))
  return (
    <Field
      parts={fault === null ? parts : { ...parts, problems: [fault, ...parts.problems] }}
      shape={shape}
      isWide
    >
      {ids => (
        <textarea
          {...ids}
          // The form is not sent without it.
          ref={field => field?.setCustomValidity(fault ?? "")}
          className="in"
          rows={Math.min(12, Math.max(2, text.split("\n").length))}
          spellCheck={false}
          placeholder="JSON"
          value={text}
          onChange={event => {
            const next = event.target.value
            setDraft(next)
            if (next.trim() === "") parts.onChange(undefined)
            else if (findJsonFault(next) === null) parts.onChange(JSON.parse(next) as Json)
          }}
          onBlur={() => fault === null && setDraft(null)}
        />
      )}
    </Field>
  )
}

function findJsonFault(text: string): string | null {
  if (text.trim() === "") return null
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    return `Not valid JSON, and not applied: ${(error as Error).message}`
  }
}

function shown(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value)
}
