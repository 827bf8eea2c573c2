(* lf.def3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.1.
   "s_t^U := (1/B) sum_{i=0}^B g_t(x_i)" is the mean gradient over a batch of B and an unbiased estimate of grad f_t. *)
From kernel Require Import definitions lemmas.

(* the gradients of n records, drawn one by one at random; the sum over the draws i = 0, ..., B as printed has B + 1 terms.
   By linearity its mean is the sum of the means: (1/B) sum_{i=0}^B E g(x_i). *)
Definition true_signal (d : nat) (gs : list vec) : vec := average d gs.
Definition mean_of_printed (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 0 (S B)))).
Definition mean_of_right (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 1 B))).
Definition printed : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_printed d B gs = true_signal d gs.
Definition correction : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_right d B gs = true_signal d gs.
