(* rs.thm3.4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.4 (eq. 12).
   Clipped SGD with RS on a G-smooth L, p~ symmetric with P(|xi| < 3C/4) >= sqrt(1 - r): there is kappa in (1 - r, 1) with (1/T) sum P h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma G C^2/2 - (1/T) sum E_m b_t), h(v) = min(|v|, C/4). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3 rs.thm3_2.
(* The case without deviation: all gradients are the true one, p_t is the point mass at 0, which is symmetric. With p~ = p, P = 1 and b_t = 0.
   The masks are as in rs.thm3.2. *)
Fixpoint clipped_run (C : R) (g : vec -> vec) (gamma : R) (m : nat -> list bool) (w : vec) (t : nat) : vec :=
  match t with O => w | S t' => let u := clipped_run C g gamma m w t' in sub u (scale gamma (clip C (mask (m t') (g u)))) end.
Definition printed : Prop := forall d k C G gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)).
