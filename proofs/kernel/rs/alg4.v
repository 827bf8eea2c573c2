(* rs.alg4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix I, Algorithm 4, line 9 (v_{t+1} = mu v_t + g_t, w_{t+1} = w_t - gamma v_{t+1}).
   "As DP is robust to post-processing, such ranked sparsification does not consume the privacy budget." Line 8 makes the noisy gradient; line 9 as printed takes the other one. *)
From kernel Require Import definitions lemmas.

(* one step on all data from w with velocity 0 and the mask m; n is the noise of line 8, which line 9 does not use *)
Definition step (d : nat) (B C gamma : R) (m : list bool) (grads : list vec) (w n : vec) : vec :=
  sub w (scale gamma (scale (/ B) (sum d (map (fun g => clip C (mask m g)) grads)))).
(* (eps, delta)-DP, for one example added or removed: for every set s of outcomes and any expectation e over the noise.
   An example x has the gradient grad x w. *)
Definition indicator (s : vec -> bool) (v : vec) : R := if s v then 1 else 0.
Definition private {X O} (e : expectation O) (n : O -> vec) d B C gamma m (grad : X -> vec -> vec) (w : vec) (eps delta : R) : Prop :=
  forall x xs s, let P data := ex e (fun o => indicator s (step d B C gamma m (map (fun x => grad x w) data) w (n o))) in
  P (x :: xs) <= exp eps * P xs + delta /\ P xs <= exp eps * P (x :: xs) + delta.
(* whatever the noise is, the step is (eps, delta)-private for some eps and some delta < 1 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : O -> vec),
  forall d B C gamma m w, 0 < B -> 0 < C -> 0 < gamma -> length m = d -> length w = d ->
  forall (X : Type) (grad : X -> vec -> vec), (forall x w, length w = d -> length (grad x w) = d) ->
  exists eps delta, delta < 1 /\ private e n d B C gamma m grad w eps delta.
