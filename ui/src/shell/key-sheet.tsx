/** All keys on one sheet. */
import { Dialog } from "./dialog.tsx"

const groups: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Anywhere",
    [
      ["Ctrl K", "Palette"],
      ["?", "This sheet"],
      ["Alt 1", "Now"],
      ["Alt 2", "Jobs"],
      ["Alt 3", "Workflows"],
      ["Alt 4", "Pipelines"],
      ["Alt 5", "Capacity"],
      ["Alt 6", "Schedules"],
      ["/", "Filter this page"],
      ["Esc", "Close"],
    ],
  ],
  [
    "Job",
    [
      ["G", "Graph"],
      ["O", "Outline"],
      ["T", "Gantt"],
      ["← →", "Up-, downstream"],
      ["↑ ↓", "Siblings"],
      ["I", "Details of the job"],
      ["1–7", "Tab of the panel"],
      ["P", "Pause, resume"],
      ["C", "Compare"],
      ["F", "Fork"],
    ],
  ],
  [
    "Time",
    [
      ["Space", "Play, pause"],
      [", .", "Previous, next event"],
      ["⇧ , .", "Change of node"],
      ["[ ]", "Previous, next failure"],
      ["L", "Live"],
    ],
  ],
  [
    "Lists",
    [
      ["J K", "Row down, up"],
      ["↵", "Open"],
      ["R", "Refresh"],
    ],
  ],
]

export default function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label="Keyboard shortcuts" className="palette sheet" onClose={onClose}>
      <div className="pin">
        <h2>Keyboard</h2>
        <span className="sp" />
        <button className="btn ghost sm" type="button" onClick={onClose}>
          Close <kbd>Esc</kbd>
        </button>
      </div>
      <div className="kgrid">
        {groups.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            {keys.map(([key, text]) => (
              <div key={key}>
                <span>
                  {key.split(" ").map(one => (
                    <kbd key={one}>{one}</kbd>
                  ))}
                </span>
                <span>{text}</span>
              </div>
            ))}
          </section>
        ))}
      </div>
    </Dialog>
  )
}
