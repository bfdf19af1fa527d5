"""What only a GPU can show, in one run: ``python -m frontier_oracle.cuda_impl.gpu_run --out FILE``."""

from __future__ import annotations

import argparse
import json

from frontier_oracle.cuda_impl import bench_window


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    result = {}
    if args.tune:
        points = ((1536, 4, 1), (6144, 8, 1), (1536, 8, 64), (1536, 8, 256), (6144, 4, 256), (6144, 8, 256))
        result["tune"] = bench_window.tune(points)
        for row in result["tune"]:
            print(row["H"], row["k"], row["batch"], row["block"], row["warps"], f"{row['ours']:.2f} {row['floor']:.2f}")
    result["bench"] = bench_window.bench_window()
    for row in result["bench"]:
        print(" ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    with open(args.out, "w") as f:
        json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
